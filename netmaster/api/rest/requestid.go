package rest

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// longestRequestID is how many bytes the id of a client may have.
const longestRequestID = 64

// Identify gives a request an id, by which its lines in logs are found: the one that its client has
// sent, if that is letters, digits, dots, dashes and underlines, or a new one. The answer carries it, too.
func Identify(w http.ResponseWriter, r *http.Request) {
	id := RequestID(r)
	if len(r.Header.Values(contivmodel.RequestIDHeader)) != 1 || !isRequestID(id) {
		id = rand.Text()
		r.Header.Set(contivmodel.RequestIDHeader, id)
	}
	w.Header().Set(contivmodel.RequestIDHeader, id)
}

// RequestID is the id of a request that was identified.
func RequestID(r *http.Request) string { return r.Header.Get(contivmodel.RequestIDHeader) }

func isRequestID(text string) bool {
	return text != "" && len(text) <= longestRequestID && !strings.ContainsFunc(text, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	})
}
