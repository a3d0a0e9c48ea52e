package classes

// reach finds the selectors that may match pods of a namespace: those for it, and those that match it by its
// labels. So a pod is compared with few of them, and a new selector with few pods.
type reach struct {
	into map[string]map[*selector]struct{} // by namespace
	wide map[*selector]struct{}            // those that select namespaces by labels
}

func newReach() reach {
	return reach{into: map[string]map[*selector]struct{}{}, wide: map[*selector]struct{}{}}
}

// places returns the namespaces that a selector matches by their labels.
func places(s *selector, namespaces map[string]map[string]string) (names []string) {
	if s.spec.Namespace != "" {
		return []string{s.spec.Namespace}
	}
	for name, labels := range namespaces {
		if s.spec.Namespaces.Matches(labels) {
			names = append(names, name)
		}
	}
	return names
}

// add adds a selector, which matches some namespaces.
func (r *reach) add(s *selector, places []string) {
	if s.spec.Namespace == "" {
		r.wide[s] = struct{}{}
	}
	for _, name := range places {
		r.enter(name, s)
	}
}

func (r *reach) enter(namespace string, s *selector) {
	if r.into[namespace] == nil {
		r.into[namespace] = map[*selector]struct{}{}
	}
	r.into[namespace][s] = struct{}{}
}

func (r *reach) leave(namespace string, s *selector) {
	if delete(r.into[namespace], s); len(r.into[namespace]) == 0 {
		delete(r.into, namespace)
	}
}

// remove drops a selector.
func (r *reach) remove(s *selector) {
	if s.spec.Namespace != "" {
		r.leave(s.spec.Namespace, s)
		return
	}
	delete(r.wide, s)
	for namespace := range r.into {
		r.leave(namespace, s)
	}
}

// label sets the labels of a namespace.
func (r *reach) label(namespace string, labels map[string]string) {
	for s := range r.wide {
		if s.spec.Namespaces.Matches(labels) {
			r.enter(namespace, s)
		} else {
			r.leave(namespace, s)
		}
	}
}

// forget removes a namespace.
func (r *reach) forget(namespace string) {
	for s := range r.wide {
		r.leave(namespace, s)
	}
}
