package rest

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// longestRequestID is the maximum length of a client's id in bytes.
const longestRequestID = 64

// Identify sets the id of a request, by which its lines in logs are found: that of the client, if it consists
// of letters, digits, dots, dashes and underlines, or a new one. The answer has it as well.
func Identify(w http.ResponseWriter, r *http.Request) {
	id := RequestID(r)
	if len(r.Header.Values(contivmodel.RequestIDHeader)) != 1 || !isRequestID(id) {
		id = rand.Text()
		r.Header.Set(contivmodel.RequestIDHeader, id)
	}
	w.Header().Set(contivmodel.RequestIDHeader, id)
}

// RequestID returns the id of a request after Identify.
func RequestID(r *http.Request) string { return r.Header.Get(contivmodel.RequestIDHeader) }

func isRequestID(text string) bool {
	return text != "" && len(text) <= longestRequestID && !strings.ContainsFunc(text, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	})
}
