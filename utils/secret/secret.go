// Package secret has a type for texts that must not be shown: passwords and the like.
//
// Package fmt, which formats logs, errors and texts for users, prints *** in its place, even in an exported field
// of another type. It cannot do so below an unexported field: a type with a secret there has to implement
// fmt.Formatter itself.
//
// JSON contains the text itself, for that is how it reaches the store and the node that needs it; the REST
// interface redacts its responses (contivmodel.Redact), and package logging hides fields whose types may contain
// secrets (In).
package secret

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Shown is printed in the place of a secret.
const Shown = "***"

// SealedPrefix is the prefix of texts that netmasters have encrypted for the store.
const SealedPrefix = "enc:v1:"

// Sealed reports whether a text has that prefix.
func Sealed(text string) bool { return strings.HasPrefix(text, SealedPrefix) }

// Text is a secret. Convert it to a string where it is used.
type Text string

// String implements fmt.Stringer.
func (t Text) String() string { return fmt.Sprint(t) }

// Format implements fmt.Formatter, for every verb. An empty text is printed as it is.
func (t Text) Format(out fmt.State, _ rune) {
	if t != "" {
		_, _ = io.WriteString(out, Shown) // errors are ignored, as in fmt
	}
}

// In reports whether values of a type may contain a Text. The content of interfaces is not considered.
func In(t reflect.Type) bool { return in(t, map[reflect.Type]bool{}) }

func in(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.String:
		return t == reflect.TypeFor[Text]()
	case reflect.Map:
		return in(t.Key(), seen) || in(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		return in(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if in(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
