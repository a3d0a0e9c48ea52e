package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/apidoc"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
)

// Every answer of every test in this package is checked against the OpenAPI document that is served
// (harness_test.go). An answer may have nothing that the document does not describe.

var documented = sync.OnceValues(func() (routers.Router, error) {
	text, err := apidoc.OpenAPI()
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	for _, s := range document.Components.Schemas {
		closeSchema(s.Value)
	}
	openapi3filter.RegisterBodyDecoder(rest.StreamType, oneLine)
	return gorillamux.NewRouter(document)
})

// oneLine decodes a stream that has been cut into lines.
func oneLine(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	var line any
	return line, json.NewDecoder(body).Decode(&line)
}

// closeSchema makes a schema refuse members that it does not name.
func closeSchema(s *openapi3.Schema) {
	if len(s.Properties) == 0 {
		return
	}
	s.AdditionalProperties = openapi3.AdditionalProperties{Has: openapi3.Ptr(false)}
	for _, member := range s.Properties {
		if member.Ref == "" {
			closeSchema(member.Value)
		}
	}
}

// conforming are the answers that were found to conform to the document: reading its schemas takes longer than
// answering.
var conforming sync.Map

// conforms checks an answer to a request; body is the part of it that was read.
func conforms(t testing.TB, req *http.Request, resp *http.Response, body string) {
	t.Helper()
	router, err := documented()
	if err != nil {
		t.Fatal(err)
	}
	asked := req.Clone(t.Context())
	route, parameters, err := router.FindRoute(asked)
	if err != nil && !strings.HasSuffix(asked.URL.Path, "/") {
		asked.URL.Path += "/" // served with and without
		route, parameters, err = router.FindRoute(asked)
	}
	if err != nil {
		return // not in the document: an unknown path or method, or a route of agents
	}
	answer := fmt.Sprint(req.Method, route.Path, resp.StatusCode, slices.Sorted(maps.Keys(resp.Header)), resp.Header.Get("Content-Type"), body)
	if _, known := conforming.Load(answer); known {
		return
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: parameters, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader([]byte(body))),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		t.Errorf("%s %s: %d %s: not as the document says: %v", req.Method, req.URL, resp.StatusCode, body, err)
		return
	}
	conforming.Store(answer, nil)
}

// asDocumented checks a request.
func asDocumented(t testing.TB, req *http.Request) error {
	t.Helper()
	router, err := documented()
	if err != nil {
		t.Fatal(err)
	}
	route, parameters, err := router.FindRoute(req)
	if err != nil {
		t.Fatal(err)
	}
	return openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{Request: req, PathParams: parameters, Route: route})
}

// A client that validates objects by the document must not be stricter than the server: the document allows both
// forms of an absent value that the server accepts.
func TestNothingIsAcceptedThatTheDocumentRefuses(t *testing.T) {
	for _, o := range lives {
		t.Run(o.path, func(t *testing.T) {
			segment, _, _ := strings.Cut(o.path, "/")
			kind, _ := contivmodel.KindBySegment(segment)
			var body map[string]any
			if err := json.Unmarshal([]byte(o.create), &body); err != nil {
				t.Fatal(err)
			}
			b := surrounded(t, o.given)
			accepted := 0
			for _, f := range kind.Fields {
				for _, nothing := range []string{"null", "0"} {
					if nothing == "0" && f.Kind() != reflect.Int {
						continue
					}
					sent := withMember(b, body, []string{f.Name}, nothing)
					if code, _, _ := b.do("POST", o.path, sent); code != http.StatusOK {
						continue
					}
					accepted++
					req := httptest.NewRequest("POST", b.url+"/api/v1/"+o.path+"/", strings.NewReader(sent))
					req.Header.Set("Content-Type", "application/json")
					if err := asDocumented(t, req); err != nil {
						t.Errorf("%s of %s is accepted: %v", f.Name, nothing, err)
					}
					b.ok("DELETE", o.path, "")
				}
			}
			t.Logf("%d accepted", accepted)
		})
	}
}

// Routes that no other test of this package asks with success.
func TestTheRestOfTheAnswersConform(t *testing.T) {
	b := ready(t)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"allow"}`)
	b.ok("GET", "inspect/rules/blue:p:1", "")
	b.ok("PUT", "globals/global", `{"name":"global","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`)
	b.ok("DELETE", "rules/blue:p:1", "")
	b.ok("DELETE", "globals/global", "")
	b.ok("GET", "/api/v1/openapi.json", "")
}

// The page describes exactly the served routes that belong to no kind of object.
func TestThePlainRoutesAreOnThePage(t *testing.T) {
	a := &API{}
	told := apidoc.PlainRoutes()
	served := map[string]bool{}
	for _, r := range slices.Concat(a.table(), a.members.Routes(), a.logins.Routes()) {
		plain := strings.HasPrefix(r.Path, logins.AuthPath) || r.Area == rights.Access || slices.Contains([]string{logins.WhoAmIPath, mastercfg.AuthorityPath, mastercfg.JoinPath,
			mastercfg.RenewPath, mastercfg.NodesPath, mastercfg.MastersPath,
			mastercfg.AuthoritiesPath, mastercfg.StoreMembersPath}, r.Path)
		for method := range r.Methods {
			served[method+" "+r.Path] = true
			if plain && !slices.Contains(told, method+" "+r.Path) {
				t.Errorf("%s %s is not on the page", method, r.Path)
			}
		}
	}
	for _, route := range told {
		if !served[route] {
			t.Errorf("%s is on the page only", route)
		}
	}
}
