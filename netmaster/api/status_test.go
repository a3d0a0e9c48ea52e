package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

func TestStatusTellsWhoIsThereAndHowTheStoreIs(t *testing.T) {
	b := ready(t, func(c *Config) {
		c.Epoch, c.StoreFull = 42, func() error { return errors.New("the store is full") }
		c.StoreMissing = func(context.Context) ([]string, error) { return []string{"n3"}, nil }
	})
	b.ok("POST", "networks/blue:web", web)
	b.endpoint("blue", "web", "", "c1")
	b.endpoint("blue", "web", "", "c2")
	// Registrations from before the second one, then the leader, was succeeded by the first.
	_, err := b.db.Register(t.Context(), 10*time.Second,
		objdb.Service{ServiceName: mastercfg.MasterService, Role: "follower", Version: "1.2.3", HostAddr: "127.0.0.1", Port: 1},
		objdb.Service{ServiceName: mastercfg.MasterService, Role: "leader", HostAddr: "127.0.0.1", Port: 2},
		objdb.Service{ServiceName: mastercfg.AgentService, Version: "1.2.2", HostAddr: "192.0.2.2", Port: 9002, Hostname: "h2"},
		objdb.Service{ServiceName: mastercfg.AgentVTEPService, HostAddr: "198.51.100.2", Port: 4789, Hostname: "h2"})
	if err != nil {
		t.Fatal(err)
	}
	var s contivmodel.Status
	testkit.Eventually(t, 20*time.Second, "all are registered", func() bool {
		s = contivmodel.Status{}
		if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/status", "")), &s); err != nil {
			t.Fatal(err)
		}
		return len(s.Masters) == 2 && len(s.Nodes) == 2
	})
	if s.Leader != "127.0.0.1:1" || s.Epoch != 42 || s.Revision == 0 || s.Version.Version == "" {
		t.Errorf("status %+v", s)
	}
	b.same("masters", s.Masters, []contivmodel.MasterStatus{{Address: "127.0.0.1:1", Role: "leader", Version: "1.2.3"}, {Address: "127.0.0.1:2", Role: "follower"}})
	b.same("nodes", s.Nodes, []contivmodel.NodeStatus{
		{Host: "h1", Endpoints: 2},
		{Host: "h2", Address: "192.0.2.2", VTEP: "198.51.100.2", Version: "1.2.2", Registered: true},
	})
	b.same("store", s.Store, contivmodel.StoreStatus{Endpoints: []string{storetest.Endpoint()}, Healthy: true, Missing: []string{"n3"}, Full: "the store is full"})

	away := storetest.Connect(t)
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	New(b.ledger, away, mirror.NewFeed(away, mastercfg.ModelRoot), b.api.config).ServeHTTP(recorder, httptest.NewRequest("GET", "/api/v1/status/", nil))
	if got := recorder.Body.String(); !strings.Contains(got, `"healthy":false`) || !strings.Contains(got, `"endpoints":2`) {
		t.Errorf("without the store: %s", got)
	}
}

// countedStore counts how often the registrations of all hosts are read.
type countedStore struct {
	Store
	readings atomic.Int64
}

func (s *countedStore) Services(ctx context.Context, name string) ([]objdb.Service, error) {
	s.readings.Add(1)
	return s.Store.Services(ctx, name)
}

// For a caller that may not see the cluster's members, their status is not computed.
func TestTheStatusOfWhoRunsNoClusterReadsNoRegistrations(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	viewer := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	operator := b.user("bob", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere})
	store := &countedStore{Store: b.db}
	b.api = New(b.ledger, store, mirror.NewFeed(b.db, mastercfg.ModelRoot), b.api.config)
	for token, readings := range map[string]int64{viewer: 0, operator: 3} {
		store.readings.Store(0)
		code, answer, _ := b.do("GET", "/api/v1/status", "", auth.TokenHeader, token)
		if code != http.StatusOK || !strings.Contains(answer, `"healthy":true`) || store.readings.Load() != readings {
			t.Errorf("%d readings, want %d: %d %s", store.readings.Load(), readings, code, answer)
		}
		if partial := strings.Contains(answer, `"partial":true`); partial != (readings == 0) {
			t.Errorf("says that it is a part: %v, after %d readings: %s", partial, readings, answer)
		}
	}
}

// Every route of the document is served, with every method it names and no other.
func TestTheDocumentTellsWhatIsServed(t *testing.T) {
	b := ready(t)
	document, err := openapi3.NewLoader().LoadFromData([]byte(b.ok("GET", "/api/v1/openapi.json", "")))
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	for path, item := range document.Paths.Map() {
		real := strings.ReplaceAll(path, "{key}", "nothing")
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			status, answer, header := b.do(method, real, "")
			if strings.HasPrefix(path, logins.AuthPath) || strings.HasPrefix(path, logins.WhoAmIPath) { // compared in TestThePlainRoutesAreOnThePage
				if status != http.StatusNotFound {
					t.Errorf("%s %s: %d in an open cluster", method, real, status)
				}
				continue
			}
			if served := status != http.StatusMethodNotAllowed && status != http.StatusNotFound; served != (item.GetOperation(method) != nil) {
				t.Errorf("%s %s: %d %s", method, real, status, answer)
			} else if !served && header.Get("Allow") == "" {
				t.Errorf("%s %s: does not tell what is allowed", method, real)
			}
		}
	}
	for _, path := range []string{rest.ApplyPath, "/api/v1/status", "/api/v1/openapi.json"} {
		if document.Paths.Find(path) == nil {
			t.Errorf("%s is not in the document", path)
		}
		if status, _, _ := b.do("OPTIONS", path+"/", ""); status != http.StatusMethodNotAllowed {
			t.Errorf("%s/ is not served with a slash: %d", path, status)
		}
	}
	for _, path := range []string{"/api/v1/status/x", "/api/v1/apply/x", "/api/v1/inspect/status/x", "/api/v1/", "/api/v1"} {
		if status, answer, _ := b.do("GET", path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}
