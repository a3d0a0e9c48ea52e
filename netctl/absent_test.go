package netctl

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A netmaster of an earlier release lacks pages; their absence says nothing about the objects on them.
func TestAServerThatLacksAPageIsSaidToBeTooOld(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	elsewhere := httptest.NewServer(http.NotFoundHandler()) // no netmaster at all
	defer elsewhere.Close()
	const document = "kind: network\nmetadata: {tenant: blue, name: web}\nspec: {subnet: 10.7.0.0/24}\n"
	for _, c := range []struct{ url, line, page string }{
		{url, "delete network web -t blue", "/api/v1/apply"},
		{url, "delete network web -t blue --ignore-not-found", "/api/v1/apply"},
		{url, "delete -f -", "/api/v1/apply"},
		{url, "apply -f -", "/api/v1/apply"},
		{url, "status", "/api/v1/status"},
		{elsewhere.URL, "diff -f -", "/api/v1/networks/blue:web/"},
		{elsewhere.URL, "get network web -t blue", "/api/v1/networks/blue:web/"},
		{elsewhere.URL, "network ls", "/api/v1/tenants/default/"},
		{elsewhere.URL, "network rm web --ignore-not-found", "/api/v1/networks/default:web/"},
		{elsewhere.URL, "describe endpoint e1", "/api/v1/inspect/endpoints/e1/"},
	} {
		wantOutcome(t, c.line, runReading(t, c.url, strings.Fields(c.line), document), outcome{3, "",
			"error: page not found: " + c.page + ": the netmaster is too old for this command, or the URL is that of another server\n"})
	}
}
