package netctl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Whoever never gave a port means the one of the way in which TLS begins.
func TestThePortOfADirectoryFollowsTheWayThatTLSBegins(t *testing.T) {
	var stored *contivmodel.LDAPConfig
	mux := http.NewServeMux()
	const path = "/api/v1/auth_proxy/ldap_configuration/"
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		var change contivmodel.LDAPConfig
		if r.Method != http.MethodGet {
			if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
				t.Error(err)
			}
		}
		switch {
		case r.Method == http.MethodPut:
			stored = &change
		case stored == nil:
			w.Header().Set("Content-Type", fault.ProblemType)
			w.WriteHeader(http.StatusNotFound)
			json.NewEncoder(w).Encode(fault.ProblemOf(fault.New(fault.NotFound, "there is no LDAP directory"), http.StatusNotFound))
			return
		case r.Method == http.MethodPatch:
			if change.Port != nil {
				stored.Port = change.Port
			}
			if change.StartTLS != nil {
				stored.StartTLS = change.StartTLS
			}
		}
		json.NewEncoder(w).Encode(stored)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	for _, c := range []struct {
		flags string
		want  int
	}{
		{"--server ldap.example.org --base-dn dc=x --account cn=x", 636},
		{"--start-tls", 389},
		{"--user-attribute uid", 389},
		{"--start-tls=false", 636},
		{"--port 1636", 1636},
		{"--start-tls", 1636},
		{"--start-tls --port 636", 636},
		{"--account cn=y", 636},
	} {
		got := run(t, s.URL, "ldap set "+c.flags)
		if stored == nil {
			t.Fatalf("ldap set %s: %v", c.flags, got)
		}
		if got.code != 0 || given(stored.Port) != c.want {
			t.Errorf("ldap set %s: %v, port %d, want %d", c.flags, got, given(stored.Port), c.want)
		}
	}
}
