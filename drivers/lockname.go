package drivers

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// LockName returns the name of the OVSDB lock that the process managing a bridge holds. Names of locks are
// identifiers (RFC 7047, 4.1.8 and 3.1).
func LockName(bridge string) string {
	return "contiv_" + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, bridge)
}
