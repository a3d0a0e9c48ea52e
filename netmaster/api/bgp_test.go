package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
)

// A speaker may be configured before its node comes; who misspells the name of one is told.
func TestASpeakerOfANodeThatIsNotRegisteredIsWarnedOf(t *testing.T) {
	b, _, _ := withNodes(t)
	apply := func(hosts ...string) string {
		var all []string
		for _, host := range hosts {
			all = append(all, fmt.Sprintf(`{"op":"apply","type":"Bgp","object":{"hostname":%q,"routerip":"50.1.1.1%s/24"}}`, host, host[1:]))
		}
		return `{"operations":[` + strings.Join(all, ",") + `]}`
	}
	const until = ": nobody is this BGP speaker until a netplugin with that host label is"
	for _, c := range []struct{ path, body, want string }{
		{"/api/v1/Bgps/h1/", `{"hostname":"h1","routerip":"50.1.1.1/24"}`, ""},
		{"/api/v1/Bgps/h8/", `{"hostname":"h8","routerip":"50.1.1.8/24"}`, "no node h8 is registered" + until},
		{rest.ApplyPath, apply("h1", "h7", "h9"), "no node h7 is registered, and 1 more are not" + until},
		{rest.ApplyPath, apply("h2"), ""},
	} {
		w := httptest.NewRecorder()
		b.api.ServeHTTP(w, rest.Plain(httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))))
		if warning := contivmodel.ParseWarning(w.Header().Get("Warning")); w.Code != http.StatusOK || warning != c.want {
			t.Errorf("%s %s: %d %s, with the warning %q, want %q", c.path, c.body, w.Code, w.Body, warning, c.want)
		}
	}
}

// registry counts the lists of registrations.
type registry struct {
	Store
	lists int
}

func (r *registry) Services(context.Context, string) ([]objdb.Service, error) {
	r.lists++
	return []objdb.Service{{Hostname: "h1"}}, nil
}

// However many speakers a client sends, registrations are listed once.
func TestRegistrationsAreListedOnceForManySpeakers(t *testing.T) {
	listed := &registry{}
	speakers := []contivmodel.Object{&contivmodel.Network{}, &contivmodel.Bgp{Hostname: "h1"}}
	for range 100 {
		speakers = append(speakers, &contivmodel.Bgp{Hostname: "h9"})
	}
	if warning := (&API{store: listed}).unspoken(t.Context(), speakers...); !strings.HasPrefix(warning, "no node h9 is registered, and 99 more are not") || listed.lists != 1 {
		t.Errorf("%q, after %d lists", warning, listed.lists)
	}
	listed.lists = 0
	if warning := (&API{store: listed}).unspoken(t.Context(), &contivmodel.Network{}); warning != "" || listed.lists != 0 {
		t.Errorf("without speakers: %q, after %d lists", warning, listed.lists)
	}
}

// Registrations are not listed for who may not configure speakers.
func TestRegistrationsAreNotListedForStrangers(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	listed := &registry{Store: b.api.store}
	b.api.store = listed
	const speaker = `{"hostname":"h9","routerip":"50.1.1.9/24"}`
	body := `{"operations":[{"op":"apply","type":"Bgp","object":` + speaker + `}]}`
	for _, who := range []string{b.user("bare"), b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"}), "proven:node/h1"} {
		b.want(who, "POST", rest.ApplyPath, body, 403, "")
		b.want(who, "POST", "Bgps/h9", speaker, 403, "")
	}
	if listed.lists != 0 {
		t.Errorf("%d lists for requests that are refused", listed.lists)
	}
	if b.want("proven:root", "POST", rest.ApplyPath, body, 200, ""); listed.lists != 1 {
		t.Errorf("%d lists for one that is not", listed.lists)
	}
}

func TestBgpStateComesFromTheNode(t *testing.T) {
	b, h1, _ := withNodes(t)
	for i, host := range []string{"h1", "h2", "h3", "h9"} {
		b.ok("POST", "Bgps/"+host, fmt.Sprintf(`{"hostname":%q,"routerip":"50.1.1.%d/24"}`, host, 1+i))
	}
	oper := func(host string) string {
		t.Helper()
		var answer struct{ Oper json.RawMessage }
		if err := json.Unmarshal([]byte(b.ok("GET", "inspect/Bgps/"+host, "")), &answer); err != nil {
			t.Fatal(err)
		}
		return string(answer.Oper)
	}
	h1.set(func(n *nodeREST) {
		n.bgp = `{"Peers":[
			{"config":{"neighbor-address":"50.1.1.2","peer-as":500},"state":{"admin-state":"up","session-state":"established","routes":2}},
			{"config":{"neighbor-address":"50.1.1.3","peer-as":501},"state":{"admin-state":"up","session-state":"active","last-error":"refused","flapping":"7 sessions have ended","routes":0}}],
			"Dsts":["10.1.0.0/24","10.2.0.0/24"]}`
	})
	if diff := cmp.Diff(`{"adminStatus":"up","neighborStatus":"established","neighbors":[`+
		`{"address":"50.1.1.2","as":"500","adminStatus":"up","status":"established","numRoutes":2},`+
		`{"address":"50.1.1.3","as":"501","adminStatus":"up","status":"active","lastError":"refused","flapping":"7 sessions have ended","numRoutes":0}],"numRoutes":2,"routes":["10.1.0.0/24","10.2.0.0/24"]}`, oper("h1")); diff != "" {
		t.Error(diff)
	}
	h1.set(func(n *nodeREST) { n.bgp = "null\n" })
	if got := oper("h1"); got != "{}" {
		t.Errorf("a node that is no speaker: %s", got)
	}
	if got := oper("h9"); got != "{}" {
		t.Errorf("a node that is not registered: %s", got)
	}
	h1.set(func(n *nodeREST) { n.bgp = "nonsense" })
	code, text, _ := b.do("GET", "inspect/Bgps/h1", "")
	if code != 500 || !strings.HasPrefix(text, "bgp of host h1: answer of node 127.0.0.1: ") {
		t.Errorf("a node that talks nonsense: %d %s", code, text)
	}
	if got := oper("h3"); !strings.HasPrefix(got, `{"problem":"node 127.0.0.3:`) || !strings.Contains(got, "does not answer") {
		t.Errorf("a node that does not answer: %s", got)
	}
	h1.set(func(n *nodeREST) { n.bgp = "" })
	if got := oper("h1"); !strings.Contains(got, "503 Service Unavailable: as many answers are under way as there may be") {
		t.Errorf("a node that has no room for an answer: %s", got)
	}
	h1.set(func(n *nodeREST) { n.joining = true })
	if got := oper("h1"); !strings.Contains(got, "401 Unauthorized: the connection is plain") {
		t.Errorf("a node that is to join: %s", got)
	}
}

// A long answer is written twice, in one of few turns.
func TestTheNodeOfASpeakerWithManyRoutesIsAskedOnce(t *testing.T) {
	b, h1, _ := withNodes(t)
	b.ok("POST", "Bgps/h1", `{"hostname":"h1","routerip":"50.1.1.1/24"}`)
	routes := make([]string, 20000)
	for i := range routes {
		routes[i] = fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
	}
	told, err := json.Marshal(map[string]any{"peers": []any{}, "dsts": routes})
	if err != nil {
		t.Fatal(err)
	}
	h1.set(func(n *nodeREST) { n.bgp = string(told) })
	if got := inspected[contivmodel.BgpOper](b, "Bgps/h1"); !slices.Equal(got.Routes, routes) || got.NumRoutes != len(routes) {
		t.Errorf("%d routes, of which %d are named", got.NumRoutes, len(got.Routes))
	}
	h1.set(func(n *nodeREST) {
		if len(n.asked) != 1 {
			t.Errorf("the node was asked %d times", len(n.asked))
		}
	})
}
