package rest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

func TestARequestHasAnID(t *testing.T) {
	for _, c := range []struct {
		name string
		sent []string
		kept bool
	}{
		{"none", nil, false},
		{"a client's", []string{"deploy-17.a_B"}, true},
		{"the longest", []string{strings.Repeat("x", 64)}, true},
		{"too long", []string{strings.Repeat("x", 65)}, false},
		{"empty", []string{""}, false},
		{"lines", []string{"a\nb"}, false},
		{"other alphabets", []string{"ä"}, false},
		{"two", []string{"a", "b"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w := httptest.NewRequest("GET", "/version", nil), httptest.NewRecorder()
			for _, id := range c.sent {
				r.Header.Add(contivmodel.RequestIDHeader, id)
			}
			Identify(w, r)
			id := RequestID(r)
			if told := w.Header().Values(contivmodel.RequestIDHeader); len(told) != 1 || told[0] != id || !isRequestID(id) {
				t.Errorf("the request has %q, the answer %q", id, told)
			}
			if c.kept != (len(c.sent) == 1 && id == c.sent[0]) {
				t.Errorf("of %q it has become %q", c.sent, id)
			}
		})
	}
}
