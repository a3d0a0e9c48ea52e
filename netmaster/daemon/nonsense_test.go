package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// said is an answer as a client receives it.
type said struct {
	Code                       int
	Body                       string
	Location, Allow, MediaType string
}

// told sends a request to a netmaster without following redirects.
func (n *node) told(method, path, body string, headers ...string) (said, error) {
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		return said{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return said{}, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return said{resp.StatusCode, string(answer), resp.Header.Get("Location"), resp.Header.Get("Allow"), resp.Header.Get("Content-Type")}, err
}

// Answers do not depend on the netmaster that was asked: an invalid request gets the leader's error, and a
// redirect is the same.
func TestAFollowerAnswersNonsenseAsTheLeaderDoes(t *testing.T) {
	db := storetest.Open(t)
	first, others := leader(t, run(t), run(t))
	before := storetest.Dump(t, db)
	const problem = "application/problem+json"
	for _, c := range []struct{ method, path, body, accept string }{
		{"GET", "/api/v1//tenants/", "", ""},
		{"POST", "/api/v1//tenants/red/?x=1", `{"tenantName":"red"}`, ""},
		{"DELETE", "/api/v1/./tenants/../tenants/default/", "", ""},
		{"GET", "//elsewhere.example/api/v1/tenants/", "", ""},
		{"GET", "/api/v1/tenants/a%2Fb/", "", ""},
		{"GET", "/api/v1/tenants/%00/", "", ""},
		{"GET", "/api/v1/tenants/%ff%fe/", "", problem},
		{"GET", "/api/v1/tenants/?watch=true&revision=nonsense", "", problem},
		{"GET", "/nope", "", ""},
		{"POST", "/nope", "{}", problem},
		{"PATCH", "/api/v1/tenants/default/", "{}", ""},
		{"BREW", "/api/v1/tenants/default/", "", problem},
		{"OPTIONS", "/api/v1/tenants/", "", ""},
		{"GET", mastercfg.CreateEndpointPath, "", problem},
		{"POST", mastercfg.CreateEndpointPath, `{"TenantName":7}`, problem},
		{"POST", mastercfg.CreateEndpointPath, "", ""},
		{"POST", "/api/v1/tenants/red/", "", ""},
		{"POST", "/api/v1/tenants/red/", "{", problem},
		{"POST", "/api/v1/tenants/red/", "\x00\xff", ""},
		{"POST", "/api/v1/tenants/red/", "[]", problem},
		{"POST", "/api/v1/tenants/red/", `{"tenantName":"blue"}`, ""},
		{"POST", "/api/v1/tenants/red/", `{"tenantName":"` + strings.Repeat("x", 1<<20) + `"}`, problem},
		{"POST", "/api/v1/networks/default:n/", `{"subnet":"10.1.1.1/33"}`, problem},
		{"DELETE", "/api/v1/networks/default:none/", "", ""},
	} {
		want, err := first.told(c.method, c.path, c.body, "Accept", c.accept, contivmodel.RequestIDHeader, "the-same")
		if err != nil {
			t.Fatalf("%s %s: %v", c.method, c.path, err)
		}
		got, err := others[0].told(c.method, c.path, c.body, "Accept", c.accept, contivmodel.RequestIDHeader, "the-same")
		if err != nil {
			t.Fatalf("%s %s through the follower: %v", c.method, c.path, err)
		}
		if diff := cmp.Diff(want, got); diff != "" || want.Code < 300 {
			t.Errorf("%s %s: status %d; the follower differs:\n%s", c.method, c.path, want.Code, diff)
		}
	}
	if diff := cmp.Diff(before, storetest.Dump(t, db)); diff != "" {
		t.Errorf("something was stored: %.400s", diff)
	}
}
