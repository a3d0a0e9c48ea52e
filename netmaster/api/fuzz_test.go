package api

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// decoders is a closed cluster that gets requests without a network.
type decoders struct {
	*bench
	by    pki.Authorities
	token string // for nodes to join
	ann   string // the token of an administrator of blue
	h1    identity.Identity
	now   atomic.Int64
}

func newDecoders(f *testing.F) *decoders {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	by, err := pki.NewCluster(begin)
	if err != nil {
		f.Fatal(err)
	}
	d := &decoders{by: by}
	d.bench = secured(f, mastercfg.SecurityEnforced, func(c *Config) {
		c.Authorities = func() pki.Authorities { return by }
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Now = func() time.Time { return begin.Add(time.Duration(d.now.Load())) }
	})
	d.h1 = d.proven("node/h1")
	d.ann = d.userAt("ann", begin, rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	d.want("proven:root", "POST", usersPath+"/", `{"username":"bob","password":"`+goodPassword+`"}`, 201, "")
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(d.want("proven:root", "POST", mastercfg.JoinTokensPath, `{"role":"node","ttl":"24h"}`, 200, "CT1.")), &shown); err != nil {
		f.Fatal(err)
	}
	d.token = shown.Token
	return d
}

func (d *decoders) newest(t *testing.T) (revision int64) {
	t.Helper()
	if err := d.ledger.View(func(r ledger.Reader) error { revision = r.Newest(); return nil }); err != nil {
		t.Fatal(err)
	}
	return revision
}

// ask sends a body of any content, and fails unless the answer names the error and nothing has changed, or it
// succeeds.
func (d *decoders) ask(t *testing.T, path, body string, who identity.Identity, token string) {
	t.Helper()
	d.now.Add(int64(time.Second)) // so that no request limit is exceeded
	before := d.newest(t)
	r := httptest.NewRequest(http.MethodPost, "https://m1"+path, strings.NewReader(body))
	r.TLS = new(tls.ConnectionState)
	r.Header.Set("Accept", fault.ProblemType)
	if token != "" {
		r.Header.Set(auth.TokenHeader, token)
	}
	w := httptest.NewRecorder()
	d.api.ServeHTTP(w, r.WithContext(identity.With(r.Context(), who)))
	if w.Code/100 == 2 {
		return
	}
	var said struct{ Error, Message string }
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Error+said.Message == "" || w.Code/100 != 4 {
		t.Errorf("%s %q: %d %s, %v", path, body, w.Code, w.Body, err)
	}
	if after := d.newest(t); after != before {
		t.Errorf("%s %q is refused with %d, and the state has changed", path, body, w.Code)
	}
}

// Requests of unauthenticated clients.
func FuzzBodiesOfStrangers(f *testing.F) {
	d := newDecoders(f)
	m := newMachine(f, "h9")
	paths := []string{mastercfg.JoinPath, mastercfg.RenewPath, logins.AuthPath + "/login/"}
	for at, bodies := range [][]any{
		{mastercfg.JoinRequest{Token: d.token, Host: "h9", CSR: m.csr, Addresses: []string{"192.0.2.9", "2001:db8::9"}, VTEPs: []string{"192.0.2.9"}},
			mastercfg.JoinRequest{Token: d.token, Host: "../h9", CSR: m.csr}, mastercfg.JoinRequest{Token: d.token[:20], Host: "h9", CSR: []byte("x")}},
		{mastercfg.RenewRequest{Host: "h9", CSR: m.csr}, mastercfg.RenewRequest{Host: "h1", CSR: m.csr[:40]}},
		{map[string]string{"username": "bob", "password": goodPassword}, map[string]string{"username": "*)(uid=*", "password": "\x00"}, map[string]int{"username": 1}},
	} {
		for _, body := range bodies {
			f.Add(uint8(at), must(json.Marshal(body)))
		}
		for _, body := range []string{"", "null", "[]", `"x"`, "{", `{"token":null,"host":[],"csr":"="}`, "\xff\xfe", `{"host":"h9"}{"host":"h8"}`} {
			f.Add(uint8(at), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, body []byte) {
		d.ask(t, paths[int(at)%len(paths)], string(body), identity.Identity{}, "")
	})
}

// Requests with the key of a node, which may be stolen.
func FuzzBodiesOfNodes(f *testing.F) {
	d := newDecoders(f)
	paths := []string{mastercfg.CreateEndpointPath, mastercfg.DeleteEndpointPath, mastercfg.UpdateEndpointPath, mastercfg.AllocAddressPath, mastercfg.ReleaseAddressPath}
	for at, bodies := range [][]any{
		{mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "web", EndpointID: "e1", EPCommonName: "n", ConfigEP: mastercfg.ConfigEP{Container: "e1", Host: "h1", IPAddress: "10.7.0.9"},
			PodNamespace: "s", PodUID: "u", Boot: "b", Labels: map[string]string{"a": "b"}},
			mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Host: "h1"}},
			mastercfg.CreateEndpointRequest{TenantName: "red", NetworkName: "none", ConfigEP: mastercfg.ConfigEP{Container: "e2", Host: "h2", IPv6Address: "::1"}}},
		{mastercfg.DeleteEndpointRequest{TenantName: "blue", NetworkName: "web", EndpointID: "e1", Host: "h1"}, mastercfg.DeleteEndpointRequest{EndpointID: "h1"}},
		{mastercfg.UpdateEndpointRequest{Tenant: "blue", Network: "web", EndpointID: "e1", ContainerID: "e1", Event: "start"}, mastercfg.UpdateEndpointRequest{Event: "die", ContainerID: "e1"}},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue"}, mastercfg.AllocAddressRequest{AddressPool: "10.7.0.0/24:blue", PreferredIPv4Address: "10.7.0.7"}},
		{mastercfg.ReleaseAddressRequest{NetworkID: "web.blue", IPv4Address: "10.7.0.7"}, mastercfg.ReleaseAddressRequest{NetworkID: ":.", IPv4Address: "x"}},
	} {
		for _, body := range bodies {
			f.Add(uint8(at), must(json.Marshal(body)))
		}
		for _, body := range []string{"", "null", "[]", "{", `{"TenantName":7}`, `{"ConfigEP":{"Container":["x"]}}`, "\xff"} {
			f.Add(uint8(at), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, body []byte) {
		d.ask(t, paths[int(at)%len(paths)], string(body), d.h1, "")
	})
}

// Requests of a tenant's administrator.
func FuzzBodiesOfApply(f *testing.F) {
	d := newDecoders(f)
	for _, operations := range [][]operation{
		nil,
		{{Op: contivmodel.OpApply, Type: "network", Object: json.RawMessage(green)}},
		{{Op: contivmodel.OpCreate, Type: "endpointGroup", Object: json.RawMessage(`{"tenantName":"blue","groupName":"g","networkName":"web"}`)}, {Op: contivmodel.OpDelete, Type: "endpointGroup", Key: "blue:g"}},
		{{Op: contivmodel.OpApply, Type: "policy", Key: "blue:p", Object: json.RawMessage(`{"tenantName":"blue","policyName":"p"}`), IfRevision: -1}},
		{{Op: contivmodel.OpDelete, Type: "network", Key: "red:web"}, {Op: contivmodel.OpDelete, Type: "network", Key: "blue:none", IgnoreNotFound: true}},
		{{Op: "move", Type: "king", Key: ":"}},
	} {
		object := operations
		for _, dry := range []bool{false, true} {
			f.Add(dry, must(json.Marshal(map[string]any{"operations": object})))
		}
	}
	for _, body := range []string{"", "null", "[]", "{", `{"operations":{}}`, `{"operations":[null]}`, `{"operations":[{"op":"apply","type":"network","object":[]}]}`,
		`{"operations":[{"op":"apply","type":"rule","object":{"tenantName":"blue","policyName":"p","ruleId":"1","priority":1e99}}]}`, "\xff"} {
		f.Add(false, []byte(body))
	}
	f.Fuzz(func(t *testing.T, dry bool, body []byte) {
		path := rest.ApplyPath
		if dry {
			path += "?dryRun=true"
		}
		d.ask(t, path, string(body), identity.Identity{}, d.ann)
	})
}
