package classes

// Holds tells what is wrong with a policy, as of the last Take: whether there are too many rules about
// a class for its own (left), and which tenants its peers are of, if none of its subjects is.
func (e *Engine) Holds(id string) (left bool, strangers []string) {
	for _, policies := range e.left {
		if _, left = policies[id]; left {
			break
		}
	}
	return left, e.strange[id]
}
