package classes

// Holds returns problems of a policy, as of the last Take: whether rules were omitted because there are too many
// about a class (left), and the tenants of its peers to which none of its subjects belongs.
func (e *Engine) Holds(id string) (left bool, strangers []string) {
	for _, policies := range e.left {
		if _, left = policies[id]; left {
			break
		}
	}
	return left, e.strange[id]
}
