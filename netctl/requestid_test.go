package netctl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

// The request id leads to the failure in netmaster's log.
func TestAFailureNamesItsRequest(t *testing.T) {
	reason := "internal"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(contivmodel.RequestIDHeader, "id-17")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"code":500,"reason":"` + reason + `","message":"it broke"}`))
	}))
	t.Cleanup(server.Close)
	if got := run(t, server.URL, "tenant ls"); got.code != exitRefused || got.stderr != "error: it broke\n  request id-17: the log of netmaster has more of it\n" {
		t.Errorf("%+v", got)
	}
	var told struct{ Reason, RequestID string }
	if got := run(t, server.URL, "tenant ls -o json"); json.Unmarshal([]byte(got.stderr), &told) != nil || told.Reason != reason || told.RequestID != "id-17" {
		t.Errorf("%+v", got)
	}
	reason = "invalid"
	if got := run(t, server.URL, "tenant ls"); strings.Contains(got.stderr, "id-17") {
		t.Errorf("who is told what is wrong need not look for it: %+v", got)
	}
}
