package agent

// index finds the ids that share a property: the networks of a tenant, say.
type index map[string]map[string]struct{}

func (x index) add(property, id string) {
	ids := x[property]
	if ids == nil {
		ids = make(map[string]struct{})
		x[property] = ids
	}
	ids[id] = struct{}{}
}

func (x index) remove(property, id string) {
	ids := x[property]
	delete(ids, id)
	if len(ids) == 0 {
		delete(x, property)
	}
}
