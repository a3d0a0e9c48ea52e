package netctl

import "github.com/contiv/netplugin/contivmodel"

// fillDefaults gives the fields that a document leaves out the values that they
// have when the object is created by its own command.
func fillDefaults(o contivmodel.Object) error {
	for i := range objects {
		for j := range objects[i].verbs {
			v := &objects[i].verbs[j]
			kind := kindFor(&objects[i], v)
			for _, f := range v.flags {
				field, ok := kind.Field(f.field)
				if !ok || kind.Type != o.ModelType() || f.value == nil || !field.Empty(o) {
					continue
				}
				if err := field.Set(o, f.value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
