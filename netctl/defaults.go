package netctl

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netctl/manifest"
)

// fillDefaults sets omitted fields of documents to the values that they have when the object is created by its own
// command.
func fillDefaults(documents []manifest.Document) error {
	defaults := defaultsByType()
	for _, d := range documents {
		for _, v := range defaults[d.Object.ModelType()] {
			if !v.field.Empty(d.Object) {
				continue
			}
			if err := v.field.Set(d.Object, v.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaultValue is the value that a command sets a field to.
type defaultValue struct {
	field contivmodel.Field
	value any
}

// defaultsByType reads all commands once for all documents of a call: there may be thousands.
func defaultsByType() map[string][]defaultValue {
	all := map[string][]defaultValue{}
	for i := range objects {
		for j := range objects[i].verbs {
			v := &objects[i].verbs[j]
			kind := kindFor(&objects[i], v)
			for _, f := range v.flags {
				if field, ok := kind.Field(f.field); ok && f.value != nil {
					all[kind.Type] = append(all[kind.Type], defaultValue{field, f.value})
				}
			}
		}
	}
	return all
}
