package client

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// leading is a server that sends every request to another place.
func leading(t *testing.T, status int, to func(*http.Request) string) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to(r), status)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestARedirectNeverCarriesATokenAwayNorTurnsAChangeIntoARead(t *testing.T) {
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s arrived elsewhere, with token %q", r.Method, r.URL, r.Header.Get("X-Auth-Token"))
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := connectTo(t, Config{URLs: []string{leading(t, status, func(r *http.Request) string { return elsewhere + r.URL.Path })},
			Token: "secret", Insecure: true})
		for what, ask := range map[string]func() error{
			"post":   func() error { return Post(t.Context(), c, &contivmodel.Tenant{TenantName: "blue"}) },
			"delete": func() error { return Delete[contivmodel.Tenant](t.Context(), c, "blue") },
			"get":    func() error { _, err := Get[contivmodel.Tenant](t.Context(), c, "blue"); return err },
			"watch":  func() error { _, err := seen(t, c, 1); return err },
		} {
			if err := ask(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "redirects to "+elsewhere+"/api/v1/tenants/") {
				t.Errorf("%d %s: %v", status, what, err)
			}
		}
	}
}

func TestAReadMayBeLedToAnotherPathOfTheSameServer(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/there/") && r.Header.Get("X-Auth-Token") == "secret" && r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"key":"blue","tenantName":"blue"}`))
		case strings.HasPrefix(r.URL.Path, "/there/"):
			t.Errorf("%s %s arrived", r.Method, r.URL)
		default:
			http.Redirect(w, r, "/there"+r.URL.Path, http.StatusMovedPermanently)
		}
	}))
	s.TLS.MinVersion = tls.VersionTLS12
	t.Cleanup(s.Close)
	c := connectTo(t, Config{URLs: []string{s.URL}, Token: "secret", Insecure: true})
	if got, err := Get[contivmodel.Tenant](t.Context(), c, "blue"); err != nil || got.TenantName != "blue" {
		t.Errorf("%+v %v", got, err)
	}
	if err := Post(t.Context(), c, &contivmodel.Tenant{TenantName: "blue"}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "/there/") {
		t.Errorf("a change: %v", err)
	}
}
