package contivmodel

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Refusals have the texts of the original controller, for programs, and an explanation for users.

// Validate checks an object without looking at others: the stored key against the one that its fields make, then
// every field in alphabetical order, its length before its form. It returns the first failure, a fault.Invalid
// that names the field. An absent value with a default is valid. Of lists only the size of their items is checked:
// their valid values depend on other objects.
func Validate(o Object) error {
	k := KindOf(o)
	key := reflect.ValueOf(o).Elem().Field(k.key).String()
	if key == "" || key != o.ModelKey() {
		return fault.New(fault.Invalid, "Invalid Key").WithField("key").
			WithExplanation("key %s of the %s: its fields make it %s", quoted(key), k.Type, quoted(o.ModelKey()))
	}
	for _, f := range k.Fields {
		if k.dispenses(f, o) {
			continue
		}
		if err := f.validate(f.of(o)); err != nil {
			return err
		}
	}
	return nil
}

// dispenses reports whether an object omits a field that it does not need, because it has another one.
func (k Kind) dispenses(f Field, o Object) bool {
	return f.Unless != "" && f.Empty(o) && slices.ContainsFunc(k.Fields, func(other Field) bool {
		return other.Name == f.Unless && !other.Empty(o)
	})
}

func (f Field) validate(v reflect.Value) error {
	if f.Unchecked || f.Default != "" && v.IsZero() {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		return f.validateText(v.String())
	case reflect.Slice:
		return limits.List(f.Name, v.Interface().([]string))
	case reflect.Int:
		if n := v.Int(); n < int64(f.Min) || f.Max > 0 && n > int64(f.Max) {
			return fault.New(fault.Invalid, "%s Value Out of bound", f.Name).WithField(f.Name).
				WithExplanation("%s %d: want %s", f.Name, n, f.wanted())
		}
	}
	return nil
}

func (f Field) validateText(text string) error {
	shown := quoted(text)
	if f.Secret() {
		shown = secret.Shown
	}
	if f.Max > 0 && len(text) > f.Max {
		return fault.New(fault.Invalid, "%s string too long", f.Name).WithField(f.Name).
			WithExplanation("%s %s: has %d bytes, want at most %d", f.Name, shown, len(text), f.Max)
	}
	if !f.wellFormed(text) {
		return fault.New(fault.Invalid, "%s string invalid format", f.Name).WithField(f.Name).
			WithExplanation("%s %s: want %s", f.Name, shown, f.wanted())
	}
	err := limits.Plain(f.Name, text)
	if err != nil && f.Secret() {
		return fault.New(fault.Invalid, "%s %s: is not UTF-8, or has a control character", f.Name, shown).WithField(f.Name)
	}
	return err
}

// quoted returns a value for a refusal, shortened if it is long.
func quoted(text string) string {
	if len(text) > mostQuoted {
		return fmt.Sprintf("%q...", text[:mostQuoted])
	}
	return fmt.Sprintf("%q", text)
}

const mostQuoted = 80 // bytes

func (f Field) wellFormed(text string) bool {
	switch {
	case text == "" && f.Required:
		return false
	case f.Rule != "":
		return patterns[f.Rule].match(text)
	case len(f.OneOf) > 0:
		return text == "" || slices.Contains(f.OneOf, text)
	}
	return true
}

// ApplyDefaults sets the fields that the object omits.
func ApplyDefaults(o Object) {
	for _, f := range KindOf(o).Fields {
		v := f.of(o)
		if f.Default == "" || !v.IsZero() {
			continue
		}
		if v.Kind() == reflect.Int {
			n, _ := strconv.Atoi(f.Default) // checked by the tests of the declarations
			v.SetInt(int64(n))
		} else {
			v.SetString(f.Default)
		}
	}
}

// ClearLinks removes the links of an object. Only the server sets them; those of a client are ignored.
func ClearLinks(o Object) {
	v := reflect.ValueOf(o).Elem()
	for _, i := range KindOf(o).links {
		v.Field(i).SetZero()
	}
}
