package netctl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

// A warning in netmaster's response is printed to stderr, without control characters.
func TestWarningsOfNetmasterAreTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(contivmodel.WarningHeader, contivmodel.FormatWarning("password of Bgp n1 came over plain HTTP\x1b[2J"))
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	got := run(t, server.URL, "bgp create n1 --router-ip 192.0.2.9/24 --as 65001 --neighbor 192.0.2.1 --neighbor-as 65002 --password secret")
	if got.code != 0 || !strings.Contains(got.stderr, "warning: password of Bgp n1 came over plain HTTP") || strings.Contains(got.stderr, "\x1b") || strings.Contains(got.stdout, "warning") {
		t.Errorf("%d: %q, %q", got.code, got.stdout, got.stderr)
	}
}

// The reasons of a refusal, whatever their origin, have no control characters either.
func TestWhatAServerRefusesWithDoesNotSteerTheTerminal(t *testing.T) {
	for _, answer := range []string{"no\x1b[2J room\u009b31m\nat\u202e all", `{"code":500,"reason":"internal","message":"no\u001b[2J room\u009b31m\nat\u202e all","details":["one\u001b[2J"]}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if strings.HasPrefix(answer, "{") {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, answer)
		}))
		defer server.Close()
		got := run(t, server.URL, "tenant ls")
		if got.code == 0 || !strings.Contains(got.stderr, "error: no?[2J room?31m\n") || strings.ContainsAny(got.stderr, "\x1b\u009b\u202e") {
			t.Errorf("%s: %d, %q", answer, got.code, got.stderr)
		}
	}
}
