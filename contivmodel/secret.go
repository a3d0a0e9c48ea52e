package contivmodel

import (
	"reflect"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Fields of the type secret.Text are accepted and not told: whoever reads an object gets
// secret.Shown in the place of one. So an object that was read can be sent back: a secret
// that is absent from an update, or is what was shown, stays as it is.

// Redact replaces the secrets of an object by what is shown of them.
func Redact(o Object) {
	for _, f := range KindOf(o).secrets {
		if v := f.of(o); v.Len() > 0 {
			v.SetString(secret.Shown)
		}
	}
}

// WithSecrets is an object as it is wanted, with the secrets of the stored one where it says
// nothing of them. It leaves both as they are.
func WithSecrets(wanted, stored Object) Object {
	kind := KindOf(wanted)
	if len(kind.secrets) == 0 {
		return wanted
	}
	whole := reflect.New(kind.goType)
	whole.Elem().Set(reflect.ValueOf(wanted).Elem())
	o := whole.Interface().(Object)
	for _, f := range kind.secrets {
		if v := f.of(o); v.Len() == 0 || v.String() == secret.Shown {
			v.SetString(f.of(stored).String())
		}
	}
	return o
}

// CheckSecrets refuses a new object that has what is shown in the place of a secret.
func CheckSecrets(o Object) error {
	for _, f := range KindOf(o).secrets {
		if f.of(o).String() == secret.Shown {
			return fault.New(fault.Invalid, "%s: %s stands for one that is not told: want the text itself", f.Name, secret.Shown).WithField(f.Name)
		}
	}
	return nil
}

// SecretsIn are the names of the fields of an object in which there is a secret.
func SecretsIn(o Object) (names []string) {
	for _, f := range KindOf(o).secrets {
		if v := f.of(o); v.Len() > 0 && v.String() != secret.Shown {
			names = append(names, f.Name)
		}
	}
	return names
}

// MapSecrets is an object with what a function makes of its secrets; the object stays as it is.
func MapSecrets(o Object, make func(f Field, text string) (string, error)) (Object, error) {
	kind := KindOf(o)
	if len(kind.secrets) == 0 {
		return o, nil
	}
	mapped := reflect.New(kind.goType)
	mapped.Elem().Set(reflect.ValueOf(o).Elem())
	with := mapped.Interface().(Object)
	for _, f := range kind.secrets {
		text, err := make(f, f.of(o).String())
		if err != nil {
			return nil, err
		}
		f.of(with).SetString(text)
	}
	return with, nil
}
