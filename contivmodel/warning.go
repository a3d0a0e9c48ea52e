package contivmodel

import (
	"strconv"
	"strings"
)

// WarningHeader of a response has additional information for the client, in words for users (RFC 7234, 5.5).
// Clients of earlier versions ignore it.
const WarningHeader = "Warning"

// miscellaneous is the code of warnings for users.
const miscellaneous = "299 - "

// FormatWarning returns the value of the header.
func FormatWarning(text string) string { return miscellaneous + strconv.QuoteToASCII(text) }

// ParseWarning returns the text in the value of the header; empty: the warning is from another server.
func ParseWarning(value string) string {
	quoted, ours := strings.CutPrefix(value, miscellaneous)
	text, err := strconv.Unquote(quoted)
	if !ours || err != nil {
		return ""
	}
	return text
}
