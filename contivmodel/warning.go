package contivmodel

import (
	"strconv"
	"strings"
)

// WarningHeader of an answer has what its client should know beside it, in words for people (RFC 7234, 5.5). Clients of
// earlier versions overlook it.
const WarningHeader = "Warning"

// miscellaneous is the code of warnings that concern the user and no cache.
const miscellaneous = "299 - "

// FormatWarning is the value of the header.
func FormatWarning(text string) string { return miscellaneous + strconv.QuoteToASCII(text) }

// ParseWarning is the text in the value of the header; empty: it is of somebody else.
func ParseWarning(value string) string {
	quoted, ours := strings.CutPrefix(value, miscellaneous)
	text, err := strconv.Unquote(quoted)
	if !ours || err != nil {
		return ""
	}
	return text
}
