// Package secret has the type of texts that are shown to nobody: passwords and the like.
//
// Package fmt, which makes logs, errors and texts for people, prints *** in its place, also
// where it is an exported field of something else. It cannot do so below a field that is not
// exported: a type with a secret there has to be a fmt.Formatter itself.
//
// JSON has the text itself, for that is how it reaches the store and the node that needs it; the
// REST interface redacts what it answers (contivmodel.Redact), and package logging hides the
// fields of a log whose types may have secrets (In).
package secret

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Shown stands in the place of a secret.
const Shown = "***"

// SealedPrefix is what a text begins with that netmasters have sealed for the store.
const SealedPrefix = "enc:v1:"

// Sealed tells whether a text begins like that.
func Sealed(text string) bool { return strings.HasPrefix(text, SealedPrefix) }

// Text is a secret. Convert it to a string where it is used.
type Text string

// String implements fmt.Stringer.
func (t Text) String() string { return fmt.Sprint(t) }

// Format implements fmt.Formatter, for every verb. An empty one is shown as what it is.
func (t Text) Format(out fmt.State, _ rune) {
	if t != "" {
		_, _ = io.WriteString(out, Shown) // as fmt does itself
	}
}

// In tells whether values of a type may have a Text somewhere in them. What interfaces hold
// is not seen.
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
