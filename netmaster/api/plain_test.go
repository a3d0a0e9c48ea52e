package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// A secret is not sent where others can read it. Joining requires TLS on this machine, too.
func TestSecretsAreRefusedOnPlainConnections(t *testing.T) {
	j := startJoin(t)
	for _, c := range []struct{ from, path, body string }{
		{"10.1.1.1:40000", mastercfg.JoinTokensPath, `{"role":"node"}`},
		{"10.1.1.1:40000", mastercfg.JoinPath, `{"token":"x","host":"h1","csr":"AAAA"}`},
		{"127.0.0.1:40000", mastercfg.JoinPath + "/", `{"token":"x","host":"h1","csr":"AAAA"}`},
	} {
		r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body))
		r.RemoteAddr = c.from
		r.Header.Set("Accept", fault.ProblemType)
		w := httptest.NewRecorder()
		j.api.ServeHTTP(w, r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Master, Name: "m2"}))) // which has the right to both
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "https only") {
			t.Errorf("%s of %s: %d %s", c.path, c.from, w.Code, w.Body)
		}
	}
}

// The same for passwords and for tokens of users, where an identity is required.
func TestPasswordsAndTokensAreRefusedOnPlainConnections(t *testing.T) {
	b := secured(t, mastercfg.SecurityPermissive)
	for name, c := range map[string]struct {
		method, path, token string
		code                int
	}{
		"a password":       {"POST", logins.AuthPath + "/login/", "", http.StatusForbidden},
		"a new user":       {"POST", logins.AuthPath + "/local_users", "", http.StatusForbidden},
		"a new password":   {"PATCH", logins.AuthPath + "/local_users/ann", "", http.StatusForbidden},
		"an account":       {"PUT", directoryPath, "", http.StatusForbidden},
		"a provider":       {"PUT", providerPath, "", http.StatusForbidden},
		"its new secret":   {"PATCH", providerPath + "/", "", http.StatusForbidden},
		"a browser's code": {"POST", openIDLoginPath, "", http.StatusForbidden},
		"a new token":      {"POST", logins.AuthPath + "/tokens", "", http.StatusForbidden},
		"a token is shown": {"GET", logins.AuthPath + "/tokens", "x", http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader("{}"))
		r.RemoteAddr = "10.1.1.1:40000"
		r.Header.Set("Accept", fault.ProblemType)
		if r.Header.Set(auth.TokenHeader, c.token); c.token == "" {
			r.Header.Del(auth.TokenHeader)
		}
		w := httptest.NewRecorder()
		b.api.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), "https only") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
