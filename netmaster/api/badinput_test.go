package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

func putTxn(key, value string) objdb.Txn {
	return objdb.Txn{Puts: []objdb.KV{{Key: key, Value: []byte(value)}}}
}

func TestBadBodiesAreRefusedWithTheirCause(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	huge := `{"tenantName":"` + strings.Repeat("x", 10<<20) + `"}`
	b.refuseAll([]refusal{
		{"POST", "tenants/x", huge, "request body too large: the limit is 1048576 bytes", 413, "too-large"},
		{"POST", mastercfg.CreateEndpointPath, huge, "request body too large: the limit is 1048576 bytes", 413, "too-large"},
		{"POST", mastercfg.CreateEndpointPath, `{"TenantName":7}`, `field "TenantName" takes no number`, 400, "malformed"},
		{"POST", mastercfg.CreateEndpointPath, `{"ConfigEP":{"Container":["x"]}}`, `field "ConfigEP.Container" takes no array`, 400, "malformed"},
		{"POST", mastercfg.CreateEndpointPath, ``, "request body is not JSON: EOF", 400, "malformed"},
		{"POST", "tenants/x", `{"tenantName":7}`, "tenant: field tenantName takes no number", 400, "malformed"},
		{"POST", "tenants/x", `[]`, "tenant: a JSON object wanted, array given", 400, "malformed"},
		{"POST", "networks/blue:n", `{"pktTag":"7"}`, "network: field pktTag takes no string", 400, "malformed"},
	})
	for _, body := range []string{"", "{", "nonsense", "\x00\xff"} {
		if code, answer, _ := b.do("POST", "tenants/x", body); code != 500 || !strings.Contains(answer, "not JSON") {
			t.Errorf("%q: %d %s", body, code, answer)
		}
	}
}

// Every agent receives clients' texts about endpoints, so their size is limited.
func TestWhatClientsSayOfEndpointsIsBounded(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.endpoint("blue", "web", "", "c1")
	before := storetest.Dump(t, b.db)
	mega := strings.Repeat("x", 900<<10)
	create := func(members string) string {
		return `{"TenantName":"blue","NetworkName":"web",` + members + `}`
	}
	for what, c := range map[string]struct{ path, body, says string }{
		"a long common name":       {mastercfg.CreateEndpointPath, create(`"EPCommonName":"` + mega + `","ConfigEP":{"Container":"c2"}`), "has 921600 bytes, want at most 512"},
		"a long container":         {mastercfg.CreateEndpointPath, create(`"ConfigEP":{"Container":"` + mega + `"}`), "want at most 255"},
		"a container of 250 bytes": {mastercfg.CreateEndpointPath, create(`"ConfigEP":{"Container":"` + mega[:250] + `"}`), "want at most 255"},
		"a long host":              {mastercfg.CreateEndpointPath, create(`"ConfigEP":{"Container":"c2","Host":"` + mega + `"}`), "want at most 253"},
		"a long address":           {mastercfg.CreateEndpointPath, create(`"ConfigEP":{"Container":"c2","IPAddress":"` + mega + `"}`), "want at most 64"},
		"a control character":      {mastercfg.CreateEndpointPath, create(`"ConfigEP":{"Container":"c\u00002"}`), "control character U+0000"},
		"no UTF-8":                 {mastercfg.CreateEndpointPath, create("\"EPCommonName\":\"a\xff\",\"ConfigEP\":{\"Container\":\"c2\"}"), "not UTF-8"},
		"a long label":             {mastercfg.UpdateEndpointPath, `{"Event":"start","Tenant":"blue","Network":"web","EndpointID":"c1","ContainerID":"k","Labels":{"a":"` + mega + `"}}`, "want at most 4096"},
		"a long container id":      {mastercfg.UpdateEndpointPath, `{"Event":"start","Tenant":"blue","Network":"web","EndpointID":"c1","ContainerID":"` + mega + `"}`, "want at most 255"},
	} {
		code, answer, _ := b.do("POST", c.path, c.body)
		if code != 500 || !strings.Contains(answer, c.says) || len(answer) > 400 {
			t.Errorf("%s: %d %.400s", what, code, answer)
		}
	}
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("something was stored: %.400s", diff)
	}
}

func TestUnknownPathsAndMethodsAreToldApart(t *testing.T) {
	b := ready(t)
	for _, path := range []string{"/", "/nope", "/api/v1/", "/api/v1/nopes/", "/api/v1/nopes/x/", "/api/v1/inspect/nopes/x/", "/api/v1/endpoints/",
		"/api/v1/tenants/a/b/", "/api/v1/tenants/a%2Fb/", "/plugin/nope", "/api/v1/inspect/", "/api/v1/inspect/tenants/", "/api/v1/inspect/endpoints/"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if code, answer, _ := b.do(method, path, ""); code != 404 || answer != "404 page not found" {
				t.Errorf("%s %s: %d %s", method, path, code, answer)
			}
		}
	}
	for path, allow := range map[string]string{
		"/api/v1/tenants/":              "GET, HEAD",
		"/api/v1/tenants/blue/":         "DELETE, GET, HEAD, POST, PUT",
		"/api/v1/inspect/tenants/blue/": "GET, HEAD",
		"/plugin/createEndpoint":        "POST",
		"/version":                      "GET, HEAD",
	} {
		code, _, header := b.do("PATCH", path, "")
		if code != http.StatusMethodNotAllowed || header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q, want %q", path, code, header.Get("Allow"), allow)
		}
	}
	if code, _, header := b.do("GET", "/api/v1//tenants/", ""); code != 301 || header.Get("Location") != "/api/v1/tenants/" {
		t.Errorf("unclean path: %d to %s", code, header.Get("Location"))
	}
	if code, _, header := b.do("POST", "/api/v1//tenants/red/?x=1", `{"tenantName":"red"}`); code != 308 || header.Get("Location") != "/api/v1/tenants/red?x=1" {
		t.Errorf("a change at an unclean path: %d to %s", code, header.Get("Location"))
	}
	for _, path := range []string{"/api/v1/tenants", "/api/v1/tenants/", "/api/v1/tenants/blue", "/api/v1/tenants/blue/", "/version", "/version/"} {
		if code, answer, _ := b.do("GET", path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if code, answer, _ := b.do("HEAD", "/api/v1/tenants/", ""); code != 200 || answer != "" {
		t.Errorf("HEAD: %d %q", code, answer)
	}
}

func TestClientsThatAskForProblemsGetThemOnEveryPath(t *testing.T) {
	b := ready(t)
	for _, c := range []struct {
		method, path, reason, text string
		code                       int
	}{
		{"PATCH", "/api/v1/tenants/blue/", "unsupported", "method PATCH not allowed", 405},
		{"GET", "/plugin/createEndpoint", "unsupported", "method GET not allowed", 405},
		{"GET", "/api/v1/nopes/", "not-found", "404 page not found", 404},
		{"POST", "/nope", "not-found", "404 page not found", 404},
	} {
		code, answer, header := b.do(c.method, c.path, "", "Accept", fault.ProblemType, contivmodel.RequestIDHeader, "id-1")
		want := fmt.Sprintf(`{"code":%d,"reason":%q,"message":%q,"field":"","details":[],"requestId":"id-1"}`, c.code, c.reason, c.text)
		if code != c.code || answer != want || header.Get(contivmodel.RequestIDHeader) != "id-1" || header.Get("Content-Type") != fault.ProblemType {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, answer)
		}
		if code, answer, _ = b.do(c.method, c.path, ""); code != c.code || answer != c.text {
			t.Errorf("%s %s, without asking: %d %s", c.method, c.path, code, answer)
		}
	}
	b.refuseAll([]refusal{
		{"GET", "/api/v1/tenants/?watch=maybe", "", "watch maybe is neither true nor false", 400, "invalid"},
		{"POST", rest.ApplyPath, "[]", "request body takes no array", 400, "malformed"},
		{"POST", rest.ApplyPath, `{"operations":[{"op":"delete","type":"tenant","key":"x","ignoreNotFound":true},null]}`, `operation 2: there is no type ""`, 400, "invalid"},
	})
}

func TestPluginRoutesTakeAnyContentType(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	for i, contentType := range []string{"", "application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded"} {
		code, answer, _ := b.do("POST", mastercfg.CreateEndpointPath,
			`{"tenantname":"blue","NETWORKNAME":"web","configEP":{"container":"c`+string(rune('0'+i))+`"}}`, "Content-Type", contentType)
		if code != 200 {
			t.Errorf("%q: %d %s", contentType, code, answer)
		}
	}
}

func TestCorruptValuesAreReportedAndTheRestGoesOn(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "networks/blue:bad", `{"tenantName":"blue","networkName":"bad","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.store(mastercfg.NetworkPrefix+"bad.blue", `{"id":7`)
	b.store(mastercfg.EndpointPrefix+"junk", `[]`)
	before := storetest.Dump(t, b.db)
	code, answer, _ := b.do("POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"bad","ConfigEP":{"Container":"x"}}`)
	if code != 500 || !strings.Contains(answer, "key /contiv.io/state/nets/bad.blue: corrupt value") {
		t.Errorf("%d %s", code, answer)
	}
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Error(diff)
	}
	b.endpoint("blue", "web", "", "c1")
	b.ok("GET", "inspect/networks/blue:web", "")
	b.ok("GET", "inspect/endpoints/c1", "")
	b.store(mastercfg.ModelKey("tenant", "junk"), `"`)
	if got := b.ok("GET", "tenants", ""); strings.Contains(got, "junk") {
		t.Errorf("list %s", got)
	}
}
