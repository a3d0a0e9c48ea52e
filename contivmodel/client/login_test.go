package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

func TestLoginAsksForATokenThatLaterRequestsCarry(t *testing.T) {
	var tokens []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("X-Auth-Token"))
		if r.URL.Path != "/api/v1/auth_proxy/login/" {
			io.WriteString(w, "[]")
			return
		}
		if body, _ := io.ReadAll(r.Body); string(body) != `{"password":"secret","username":"ann"}` {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `{"token":"abc"}`)
	}))
	defer s.Close()
	c := connectTo(t, Config{URLs: []string{s.URL}, Insecure: true, Tokens: map[string]string{s.URL: "old", "https://elsewhere": "x"}})
	if token, err := c.Login(t.Context(), "ann", "secret"); err != nil || token != "abc" {
		t.Errorf("got %q, %v", token, err)
	}
	if _, err := c.Login(t.Context(), "ann", "guess"); !fault.Is(err, fault.Denied) || err.Error() != "bad username or password" {
		t.Errorf("got %v", err)
	}
	if _, err := List[contivmodel.Tenant](t.Context(), c); err != nil || tokens[2] != "old" {
		t.Errorf("%v, tokens %q", err, tokens)
	}
}
