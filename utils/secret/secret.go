// Package secret has the type of texts that are shown to nobody: passwords and the like.
//
// Whatever prints a value prints *** in its place, also where it is a field of
// something else: logs, errors and texts for people are made by package fmt. JSON has the
// text itself, for that is how it reaches the store and the node that needs it; the
// REST interface redacts what it answers (contivmodel.Redact).
package secret

import (
	"fmt"
	"io"
)

// Shown stands in the place of a secret.
const Shown = "***"

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
