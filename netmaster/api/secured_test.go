package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// provenHeader sets in tests the identity that a connection proves, such as "root" or "node/h1".
const provenHeader = "Test-Proven"

// secured returns a bench with the tenants blue and red, in a mode, where a header sets the identity of a
// connection.
func secured(t testing.TB, mode mastercfg.SecurityMode, change ...func(*Config)) *bench {
	b := ready(t, change...)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "networks/red:web", strings.NewReplacer("blue", "red", "10.7.", "10.8.").Replace(web))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.Header.Get(provenHeader); text != "" {
			r = r.WithContext(identity.With(r.Context(), b.proven(text)))
		}
		b.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.NodePrefix+"h1", mastercfg.Joined{Host: "h1", Key: b.proven("node/h1").KeyHash})
	})
	b.mode(mode)
	return b
}

// proven returns an identity authenticated by a certificate; all nodes have one key, and users one that this
// cluster has certified.
func (b *bench) proven(text string) identity.Identity {
	who, err := identity.Parse(text)
	if err != nil {
		b.Error(err)
	}
	switch who.Kind {
	case identity.Node:
		who.KeyHash = "k1"
	case identity.User:
		who.KeyHash, who.Issued = "k of "+who.Name, true
	}
	return who
}

// plan changes the store with a plan of netmaster's own.
func (b *bench) plan(do func(*ledger.Tx) error) {
	b.Helper()
	if _, err := b.ledger.Update(b.Context(), do); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) mode(mode mastercfg.SecurityMode) {
	b.Helper()
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.SecurityKey, mastercfg.Security{Mode: mode, ClusterID: "c"})
	})
}

// user makes a user with roles, and a session, whose token it returns.
func (b *bench) user(name string, roles ...rights.Grant) (token string) {
	b.Helper()
	return b.userAt(name, time.Now(), roles...)
}

// userAt does so at another time.
func (b *bench) userAt(name string, when time.Time, roles ...rights.Grant) (token string) {
	b.Helper()
	b.plan(func(tx *ledger.Tx) error {
		if err := access.CreateUser(tx, mastercfg.LocalUser{Name: name, Password: "hash"}, time.Now()); err != nil {
			return err
		}
		for _, role := range roles {
			if _, err := access.Bind(tx, name, true, role); err != nil {
				return err
			}
		}
		made, err := access.Login(tx, name, "hash", "", when)
		token = made.Text
		return err
	})
	return token
}

// as sends a request with a token, or, as "proven:node/h1", from a connection.
func (b *bench) as(who, method, path, body string) (int, string, http.Header) {
	b.Helper()
	proven, isProven := strings.CutPrefix(who, "proven:")
	switch {
	case who == "":
		return b.do(method, path, body)
	case isProven:
		return b.do(method, path, body, provenHeader, proven)
	}
	return b.do(method, path, body, auth.TokenHeader, who)
}

// The routes of accounts.
const (
	usersPath       = logins.AuthPath + "/local_users"
	tokensPath      = logins.AuthPath + "/tokens"
	directoryPath   = logins.AuthPath + "/ldap_configuration"
	providerPath    = logins.AuthPath + "/openid_configuration"
	openIDPath      = logins.AuthPath + "/openid"
	openIDLoginPath = openIDPath + "/login"
)

// boundRole is a binding, and shownToken a token, in the form of these routes.
type (
	boundRole struct {
		ID string `json:"AuthzUUID"`
	}
	shownToken struct{ Token string }
)

// want sends a request and compares its status, and a part of the answer.
func (b *bench) want(who, method, path, body string, code int, part string) string {
	b.Helper()
	status, answer, _ := b.as(who, method, path, body)
	if status != code || !strings.Contains(answer, part) {
		b.Errorf("%.20s %s %s: %d %q, want %d %q", who, method, path, status, answer, code, part)
	}
	return answer
}

const green = `{"tenantName":"blue","networkName":"green","encap":"vxlan","subnet":"10.9.0.0/24"}`

func TestAClosedClusterAsksWhoItIs(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want("", "GET", "tenants", "", 401, `"error":`)
	b.want("", "GET", "/nowhere", "", 401, `"error":`)
	b.want("", "GET", "/version", "", 200, "GitCommit")
	b.want("ctv1_x", "GET", "tenants", "", 401, "form")
	b.want(accounts.NewToken("ann").Text, "GET", "tenants", "", 401, "not known")
	b.want(ann[:len(ann)-1]+map[bool]string{true: "0", false: "1"}[ann[len(ann)-1] != '0'], "GET", "tenants", "", 401, "not the one")
	b.want("proven:root", "GET", "tenants", "", 200, "red")
	b.want(ann, "GET", "tenants", "", 200, "blue")
	b.want("", "GET", "/api/v1/tenants/?token="+ann+"&access_token="+ann+"&X-Auth-Token="+ann, "", 401, "nobody says") // not in a URL, which logs keep
	if code, answer, _ := b.do("GET", "tenants", "", "Cookie", auth.TokenHeader+"="+ann); code != 401 {
		t.Errorf("a token in a cookie: %d %s", code, answer)
	}
	for name, headers := range map[string][]string{
		"two tokens":               {auth.TokenHeader, ann, "Authorization", "Bearer " + b.user("bob")},
		"a token and a connection": {auth.TokenHeader, ann, provenHeader, "node/h1"},
	} {
		if code, answer, _ := b.do("GET", "tenants", "", headers...); code != 400 || !strings.Contains(answer, "two identities") {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
	for value, want := range map[string]int{"Bearer " + ann: 200, "bearer " + ann: 200, "Basic YW5uOnB3": 401, "Bearer": 401, ann: 401} {
		if code, answer, _ := b.do("GET", "tenants", "", "Authorization", value); code != want {
			t.Errorf("Authorization %.10q: %d %s", value, code, answer)
		}
	}
	code, answer, _ := b.do("GET", "networks/red:web", "", auth.TokenHeader, ann, "Accept", fault.ProblemType)
	var p fault.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil || code != 403 || p.Reason != "denied" || p.Message != "user/ann may not read objects of tenant red: it is tenant-admin of blue" {
		t.Errorf("%d %+v, %v", code, p, err)
	}
}

// The text of a refusal does not depend on the existence of objects.
func TestNobodyLearnsOfWhatIsNotHis(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	for _, key := range []string{"red:web", "red:none", "none:none", "red"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			b.want(ann, method, "networks/"+key, "{", 403, `{"error":"Insufficient privileges"}`)
		}
		b.want(ann, "GET", "inspect/networks/"+key, "", 403, "Insufficient")
	}
	b.want(ann, "GET", "networks", "", 200, `"blue:web"`)
	b.want(ann, "GET", "/api/v1/networks/?tenant=red", "", 403, "Insufficient")
	for _, path := range []string{"networks", "tenants", "inspect/tenants/blue", "/services", "/api/v1/status"} {
		if answer := b.want(ann, "GET", path, "", map[bool]int{true: 500, false: 200}[path == "/services"], ""); strings.Contains(answer, "red") {
			t.Errorf("%s: %s", path, answer)
		}
	}
	b.want(b.user("nobody"), "GET", "networks", "", 200, "[]")
	b.want(ann, "GET", "globals", "", 403, "")
	b.want(ann, "GET", "inspect/globals/global", "", 200, `"fwdMode":"routing"`)
	if answer := b.want(ann, "GET", "inspect/globals/global", "", 200, ""); !strings.Contains(b.want("proven:root", "GET", "inspect/globals/global", "", 200, ""), `"numNetworks":2`) || strings.Contains(answer, `"numNetworks":2`) {
		t.Errorf("how many networks others have is shown: %s", answer)
	}
	b.endpointAs("proven:node/h1", "blue", "ep-blue")
	b.endpointAs("proven:node/h1", "red", "ep-red")
	b.want(ann, "GET", "inspect/endpoints/ep-blue", "", 200, "10.7.0.1")
	b.want(ann, "GET", "inspect/endpoints/ep", "", 200, "10.7.0.1") // the only one for ann
	b.want(ann, "GET", "inspect/endpoints/ep-red", "", 500, "not found")
	b.want(ann, "GET", "/api/v1/verdict?from=ep-blue&to=ep-red&protocol=tcp&port=80", "", 500, "not found")
	for _, ends := range []string{"from=ep-blue&to=ep-red", "from=ep-red&to=ep-blue", "from=ep-red&to=10.7.0.1"} {
		b.want(ann, "GET", "/api/v1/trace?protocol=tcp&port=80&"+ends, "", 500, "not found")
	}
	b.want(ann, "GET", "/api/v1/trace?protocol=tcp&port=80&from=ep-blue&to=10.7.0.1", "", 500, "node h1 is not registered")
	b.want(ann, "DELETE", "/debug/epcleanup/tenant/red/ep/ep-red", "", 403, "")

	b.want("proven:root", "POST", "networks/red:lan", `{"tenantName":"red","networkName":"lan","encap":"vlan","subnet":"10.66.0.0/24"}`, 200, "")
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","vlans":"100-101"}`, 200, "")
	refused := b.want(ann, "POST", "networks/blue:lan", `{"tenantName":"blue","networkName":"lan","encap":"vlan","pktTag":100,"subnet":"10.66.0.0/16"}`, 500, "overlaps a network of another tenant")
	if strings.Contains(refused, "red") || strings.Contains(refused, "10.66.0.0/24") {
		t.Errorf("whose network is in the way is told: %s", refused)
	}
}

// endpointAs creates an endpoint as a given identity.
func (b *bench) endpointAs(who, tenant, container string) {
	b.Helper()
	request, err := json.Marshal(mastercfg.CreateEndpointRequest{TenantName: tenant, NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: container, Host: "h1"}})
	if err != nil {
		b.Fatal(err)
	}
	b.want(who, "POST", mastercfg.CreateEndpointPath, string(request), 200, "")
}

func TestAnApplyIsJudgedWholeBeforeItBegins(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	apply := func(tenants ...string) string {
		var operations []string
		for _, tenant := range tenants {
			operations = append(operations, `{"op":"apply","type":"network","object":`+strings.ReplaceAll(green, "blue", tenant)+`}`)
		}
		return `{"operations":[` + strings.Join(operations, ",") + `]}`
	}
	code, answer, _ := b.do("POST", rest.ApplyPath, apply("blue", "red", "none"), auth.TokenHeader, ann, "Accept", fault.ProblemType)
	var p fault.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil || code != 403 || strings.Join(p.Details, ", ") != "network red:green, network none:green" {
		t.Errorf("%d %s, %v", code, answer, err)
	}
	b.want(ann, "POST", rest.ApplyPath+"?dryRun=true", apply("blue", "red"), 403, "Insufficient")
	b.want("", "POST", rest.ApplyPath, apply("blue"), 401, "")
	b.want(ann, "GET", "networks/blue:green", "", 500, "not found")
	b.want(ann, "POST", rest.ApplyPath, apply("blue"), 200, "created")
}

func TestAPermissiveClusterRefusesNothingButWhoMayWhat(t *testing.T) {
	b := secured(t, mastercfg.SecurityPermissive)
	ann := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	b.want("", "POST", "networks/blue:green", green, 200, "")
	b.want(ann, "DELETE", "networks/blue:green", "", 200, "")
	b.want(ann, "GET", "networks", "", 200, "red:web")
	b.want("", "GET", "globals", "", 200, "routing")
	b.want("ctv1_x", "GET", "networks", "", 200, "red:web") // also for who shows something wrong
	// a node's name can be neither removed nor given to another key
	b.want("", "DELETE", mastercfg.NodesPath+"/h1", "", 401, "")
	b.want("", "POST", mastercfg.NodesPath+"/h1/rekey", "", 401, "")
	b.want("", "DELETE", mastercfg.MastersPath+"/m1", "", 401, "")
}

// showing returns a request from this machine with a token.
func showing(token string) *http.Request {
	r := httptest.NewRequest("GET", "/api/v1/networks/blue:web/", nil)
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set(auth.TokenHeader, token)
	return r
}

// entered returns a request with a token, in the context of its identity.
func (b *bench) entered(token string) *http.Request {
	b.Helper()
	r, err := b.api.entrance.Enter(showing(token))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func TestARightThatIsTakenAwayEndsAtOnce(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	// between the request's entry and its plan
	entered := b.entered(ann)
	caller := auth.CallerFrom(entered.Context())
	caller.Require(auth.Need{Verb: rights.Change, Area: rights.Objects, Tenant: "blue"})
	write := func() error {
		_, err := b.api.ledger.Update(entered.Context(), func(tx *ledger.Tx) error { tx.Put(mastercfg.OperRoot+"global/x", []byte("x")); return nil })
		return err
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	b.plan(func(tx *ledger.Tx) error {
		all, err := access.Bindings(tx)
		if err != nil {
			return err
		}
		return access.Unbind(tx, identity.Identity{Kind: identity.Root}, all[0].ID)
	})
	if d, is := rest.Denied(write()); !is || d.Status != 403 {
		t.Errorf("a plan after the right was taken away: %v", d)
	}
	b.want(ann, "POST", "networks/blue:green", green, 403, "")
	b.plan(func(tx *ledger.Tx) error { access.Logout(tx, caller.Who); return nil })
	if d, is := rest.Denied(write()); !is || d.Status != 401 {
		t.Errorf("a plan after the logout: %v", d)
	}
	b.want(ann, "GET", "tenants", "", 401, "")
}

// A certificate of a node is valid while its name belongs to its key.
func TestANodeThatWasRemovedOrHasAnotherKeyIsNobody(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	path := mastercfg.NodesPath + "/h1"
	b.want("proven:node/h1", "GET", logins.WhoAmIPath, "", 200, `"identity":"node/h1"`)
	b.want("proven:node/h2", "GET", logins.WhoAmIPath, "", 401, "") // has never joined
	b.want("proven:root", "POST", path+"/rekey", "", 200, "")
	b.want("proven:node/h1", "POST", mastercfg.AllocAddressPath, "{}", 401, "")
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.NodePrefix+"h1", mastercfg.Joined{Host: "h1", Key: "another"})
	})
	b.want("proven:node/h1", "GET", logins.WhoAmIPath, "", 401, "")
	b.want("proven:root", "DELETE", path, "", 200, "")
	b.want("proven:node/h1", "GET", logins.WhoAmIPath, "", 401, "")
}

func TestAWatchEndsWithTheRightToIt(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	admin := identity.Identity{Kind: identity.Root}
	begin := func(query string) (w *watching, token string) {
		token = b.user(strings.NewReplacer("?", "-", "=", "-", "&", "-", "/", "-").Replace(query), rights.Grant{Role: rights.Viewer, Tenant: "blue"})
		w = b.watchAs(query, token)
		if e, ok := w.next(); !ok || e.Object.TenantName != "blue" {
			t.Fatalf("%s: %+v %v", query, e, ok)
		}
		return w, token
	}
	listed, listedToken := begin("networks/?watch=true")
	tenants, _ := begin("tenants/?watch=true")
	other := b.watchAs("networks/?watch=true", b.user("other", rights.Grant{Role: rights.Viewer, Tenant: rights.Everywhere}))
	for _, w := range []*watching{listed, tenants} {
		if e, ok := w.next(); !ok || e.Type != "BOOKMARK" {
			t.Fatalf("something else than blue is told: %+v %v", e, ok)
		}
	}
	b.want("proven:root", "POST", "networks/red:green", strings.ReplaceAll(green, "blue", "red"), 200, "")
	b.want("proven:root", "POST", "networks/blue:green", strings.ReplaceAll(green, "10.9", "10.10"), 200, "")
	e, ok := listed.next()
	if !ok || e.Object.Key != "blue:green" {
		t.Errorf("%+v %v", e, ok)
	}
	b.plan(func(tx *ledger.Tx) error {
		all, err := access.Bindings(tx)
		for _, bound := range all {
			if bound.Tenant == "blue" && err == nil {
				err = access.Unbind(tx, admin, bound.ID)
			}
		}
		return err
	})
	for _, w := range []*watching{listed, tenants} {
		if e, ok := w.next(); ok {
			t.Errorf("goes on without a right: %+v", e)
		}
	}
	b.want(listedToken, "GET", fmt.Sprintf("/api/v1/networks/?watch=true&revision=%d", e.Revision), "", 500, "may see changed")
	for _, of := range []string{"networks", "tenants"} { // each would have one of the places of all
		b.want(listedToken, "GET", "/api/v1/"+of+"/?watch=true", "", 403, "")
	}
	seen := map[string]bool{}
	for len(seen) < 4 {
		e, ok := other.next()
		if !ok {
			t.Fatalf("the watch of somebody else ended after %v", seen)
		}
		if e.Type != "BOOKMARK" {
			seen[e.Object.Key] = true
		}
	}
	b.mode(mastercfg.SecurityPermissive)
	if e, ok := other.next(); ok && e.Type != "BOOKMARK" {
		t.Errorf("the cluster has another mode: %+v", e)
	}
}

// A continued watch must list again if its caller sees other objects by now: also after the second group has lost
// its roles, after a login with other groups, and in another mode.
func TestAWatchGoesOnOnlyWhereTheSameIsSeen(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	admin := identity.Identity{Kind: identity.Root}
	bind := func(group string) (id string) {
		b.plan(func(tx *ledger.Tx) error {
			made, err := access.Bind(tx, group, false, rights.Grant{Role: rights.Viewer, Tenant: "blue"})
			id = made.ID
			return err
		})
		return id
	}
	unbind := func(id string) { b.plan(func(tx *ledger.Tx) error { return access.Unbind(tx, admin, id) }) }
	login := func(groups ...string) (token string) {
		b.plan(func(tx *ledger.Tx) error {
			made, err := access.LoginForeign(tx, "eve", groups, time.Now())
			token = made.Text
			return err
		})
		return token
	}
	now := func() (revision int64) {
		if err := b.ledger.View(func(r ledger.Reader) error { revision = r.Newest(); return nil }); err != nil {
			t.Fatal(err)
		}
		return revision
	}
	again := func(what, token string, from int64) {
		t.Helper()
		b.want(token, "GET", fmt.Sprintf("/api/v1/networks/?watch=true&revision=%d", from), "", 500, what)
	}
	bind("staff")
	one, two := bind("one"), bind("two")
	eve := login("staff", "one", "two")
	for _, group := range []string{one, two} {
		from := now()
		unbind(group)
		again("may see changed", eve, from)
	}
	from := now()
	again("may see changed", login("staff", "other"), from)
	from = now()
	b.mode(mastercfg.SecurityPermissive)
	again("may see changed", eve, from)
}

// The cost of checking rights in a request: in memory, at most 20 us.
func BenchmarkAsking(b *testing.B) {
	s := secured(b, mastercfg.SecurityEnforced)
	token := s.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "red"}, rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	request := showing(token)
	for b.Loop() {
		entered, err := s.api.entrance.Enter(request)
		if err != nil {
			b.Fatal(err)
		}
		caller := auth.CallerFrom(entered.Context())
		for range 2 { // at the entry, and in the snapshot or the plan
			if err := s.api.ledger.View(func(r ledger.Reader) error {
				return caller.Judge(r, auth.Need{Verb: rights.Read, Area: rights.Objects, Tenant: "blue"})
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
