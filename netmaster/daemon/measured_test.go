package daemon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The leader decides about access; without a leader, its recent decisions apply.
func TestMetricsAreShownToThoseWhoMay(t *testing.T) {
	leads, often := true, false
	mode := mastercfg.SecurityEnforced
	now := time.Unix(1_000_000, 0)
	m := newMeasured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case often && strings.Contains(r.Header.Get("Accept"), "problem+json"):
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		case often:
			http.Error(w, "too many requests", http.StatusInternalServerError)
		case !leads:
			http.Error(w, "Leader not found", http.StatusServiceUnavailable)
		case r.Header.Get("X-Auth-Token") == "may", mode == mastercfg.SecurityPermissive:
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "Insufficient privileges", http.StatusForbidden)
		}
	}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") }), func() mastercfg.SecurityMode { return mode })
	m.now = func() time.Time { return now }
	ask := func(token string, header ...string) (int, string) {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("X-Auth-Token", token)
		for _, name := range header {
			r.Header.Set(name, "x")
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	check := func(what, token string, code int, text string, header ...string) {
		t.Helper()
		if got, body := ask(token, header...); got != code || body != text {
			t.Errorf("%s: %d %q, want %d %q", what, got, body, code, text)
		}
	}
	check("who may", "may", 200, "metrics")
	check("who may not", "other", 403, "Insufficient privileges\n")
	check("another netmaster asks for its client", "may", 204, "", forwardedHeader)
	often = true
	check("who asks too often", "may", 429, "too many requests\n")
	leads, often = false, false
	check("without a leader, let in lately", "may", 200, "metrics")
	check("without a leader, never let in", "other", 503, "Leader not found\n")
	now = now.Add(admittedFor)
	check("without a leader, let in long ago", "may", 503, "Leader not found\n")
	mode = mastercfg.SecurityPermissive
	check("without a leader, in a permissive cluster", "other", 200, "metrics")
	leads = true
	check("in a permissive cluster", "other", 200, "metrics")
	leads, mode = false, mastercfg.SecurityEnforced
	check("without a leader, let in while the cluster was permissive", "other", 503, "Leader not found\n")
	mode = ""
	check("without a leader, before the mode is known", "other", 503, "Leader not found\n")
	mode = mastercfg.SecurityOpen
	check("in an open cluster", "other", 200, "metrics")
}
