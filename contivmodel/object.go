package contivmodel

import "strings"

// Object is a configuration object; every *T of the package with a kind is one.
type Object interface {
	ModelType() string // type string, as in links: "endpointGroup"
	ModelKey() string  // key computed from the fields that make it
	SetKey(key string) // stores the key that came with the URL; Validate compares
}

// Pointer lets code name the type T of an object although the methods are those of *T.
type Pointer[T any] interface {
	*T
	Object
}

// Link points at one object.
type Link struct {
	Type string `json:"type,omitempty"`
	Key  string `json:"key,omitempty"`
}

// LinkTo returns the link to an object.
func LinkTo(o Object) Link { return Link{Type: o.ModelType(), Key: o.ModelKey()} }

// LinkSet points at any number of objects of one type, by key.
type LinkSet map[string]Link

// Add adds the link to an object.
func (s *LinkSet) Add(o Object) {
	if *s == nil {
		*s = LinkSet{}
	}
	(*s)[o.ModelKey()] = LinkTo(o)
}

// Remove removes the link to an object, if there is one.
func (s LinkSet) Remove(o Object) { delete(s, o.ModelKey()) }

// Inspect is the response of inspect: the configuration, and the run-time data.
type Inspect[Config, Oper any] struct {
	Config Config
	Oper   Oper
}

// ConfigInspect is the response of inspect for types without run-time data.
type ConfigInspect[Config any] struct {
	Config Config
}

// joinKey composes a key from the names that identify an object.
func joinKey(names ...string) string { return strings.Join(names, ":") }
