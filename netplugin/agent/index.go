package agent

// index maps a property to the ids that share it: a tenant to its networks, for example.
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
