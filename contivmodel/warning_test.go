package contivmodel

import "testing"

// A warning arrives unchanged, in one line of ASCII, and warnings of caches are ignored.
func TestWarningsArriveAsTheyWere(t *testing.T) {
	for _, text := range []string{"plain", "\"quoted\" \\ and\r\nX-Evil: 1", "für alle"} {
		value := FormatWarning(text)
		for _, c := range value {
			if c < ' ' || c > '~' {
				t.Errorf("%q has %q", value, c)
			}
		}
		if got := ParseWarning(value); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, other := range []string{"", `110 cache "Response is stale"`, "299 - unquoted"} {
		if got := ParseWarning(other); got != "" {
			t.Errorf("%q says %q", other, got)
		}
	}
}
