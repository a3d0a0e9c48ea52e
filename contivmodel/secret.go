package contivmodel

import (
	"reflect"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Fields of the type secret.Text are write-only: reading an object returns secret.Shown in their place. So an
// object that was read can be sent back: in an update, a secret that is absent, or is secret.Shown, is unchanged.

// Redact replaces the secrets of an object by secret.Shown.
func Redact(o Object) {
	for _, f := range KindOf(o).secrets {
		if v := f.of(o); v.Len() > 0 {
			v.SetString(secret.Shown)
		}
	}
}

// WithSecrets returns the wanted object, with the secrets of the stored one where wanted has none. Both arguments
// are unchanged.
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

// CheckSecrets refuses a new object that has secret.Shown in the place of a secret.
func CheckSecrets(o Object) error {
	for _, f := range KindOf(o).secrets {
		if f.of(o).String() == secret.Shown {
			return fault.New(fault.Invalid, "%s: %s stands for one that is not told: want the text itself", f.Name, secret.Shown).WithField(f.Name)
		}
	}
	return nil
}

// SecretsIn returns the names of the fields of an object with a secret.
func SecretsIn(o Object) (names []string) {
	for _, f := range KindOf(o).secrets {
		if v := f.of(o); v.Len() > 0 && v.String() != secret.Shown {
			names = append(names, f.Name)
		}
	}
	return names
}

// MapSecrets returns a copy of an object with its secrets replaced by the results of make.
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
