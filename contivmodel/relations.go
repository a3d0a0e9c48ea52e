package contivmodel

import (
	"reflect"
	"slices"
	"strings"
)

// Relation is one name under which an object is linked to others.
type Relation struct {
	Name    string // of the link or link-set: "EndpointGroups"
	Forward bool   // this object refers to the others and depends on them; false: they refer to it
	Links   []Link // by key
}

// Relations returns the links of an object that are set. Forward are single links, link-sets with the name of one
// of the object's fields, and the link-set to the object that it is a part of.
func Relations(o Object) []Relation {
	kind := KindOf(o)
	var all []Relation
	for _, i := range kind.links {
		group := reflect.ValueOf(o).Elem().Field(i)
		for j := range group.NumField() {
			r := Relation{Name: group.Type().Field(j).Name}
			switch v := group.Field(j).Interface().(type) {
			case Link:
				r.Forward = true
				if v != (Link{}) {
					r.Links = []Link{v}
				}
			case LinkSet:
				for _, link := range v {
					r.Links = append(r.Links, link)
					r.Forward = r.Forward || strings.HasPrefix(o.ModelKey(), link.Key+":")
				}
				slices.SortFunc(r.Links, func(a, b Link) int { return strings.Compare(a.Key, b.Key) })
				r.Forward = r.Forward || kind.hasFieldLike(r.Name)
			}
			if len(r.Links) > 0 {
				all = append(all, r)
			}
		}
	}
	return all
}

func (k Kind) hasFieldLike(name string) bool {
	return slices.ContainsFunc(k.Fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}
