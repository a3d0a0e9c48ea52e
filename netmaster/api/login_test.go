package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

const goodPassword = "correct horse battery"

// proxied returns a closed cluster with a clock that the test sets, and hashes that cost nothing.
func proxied(t testing.TB, change ...func(*Config)) (b *bench, ahead *atomic.Int64) {
	ahead = new(atomic.Int64)
	b = secured(t, mastercfg.SecurityEnforced, append(change, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})...)
	return b, ahead
}

func (b *bench) login(name, password string) (token string) {
	b.Helper()
	answer := b.want("", "POST", logins.AuthPath+"/login/", fmt.Sprintf(`{"username":%q,"password":%q}`, name, password), 200, "token")
	var said struct{ Token string }
	if err := json.Unmarshal([]byte(answer), &said); err != nil || said.Token == "" {
		b.Fatalf("%s: %v", answer, err)
	}
	return said.Token
}

func TestClientsOfTheOriginalsProxyAreServed(t *testing.T) {
	b, ahead := proxied(t)
	const users, bindings = logins.AuthPath + "/local_users/", logins.AuthPath + "/authorizations/"
	b.want("proven:root", "POST", users, `{"username":"ann","password":"`+goodPassword+`","first_name":"Ann"}`, 201, `"username":"ann"`)
	b.want("proven:root", "POST", users, `{"username":"ann","password":"`+goodPassword+`"}`, 409, `{"error":"user ann exists"}`)
	b.want("proven:root", "POST", users, `{"username":"b/b","password":"`+goodPassword+`"}`, 400, `"error"`)
	b.want("proven:root", "POST", users, `{"username":"bob","password":"short"}`, 400, `want 12 to 1024`)
	b.want("proven:root", "POST", users, `{"username":"bob"}`, 400, `a password is wanted`)
	ann := b.login("ann", goodPassword)
	b.want(ann, "GET", "networks", "", 200, "[]")
	for _, role := range []string{`{"principalName":"ann","local":true,"role":"ops"}`, `{"principalName":"ann","local":true,"role":"king"}`,
		`{"principalName":"ann","local":true,"role":"node"}`, `{"principalName":"ann","local":true,"role":"operator","tenantName":"blue"}`, `{"principalName":"","role":"admin"}`} {
		b.want("proven:root", "POST", bindings, role, 400, `"error"`)
	}
	for _, absent := range []string{`{"principalName":"none","local":true,"role":"admin"}`, `{"principalName":"ann","local":true,"role":"ops","tenantName":"none"}`} {
		b.want("proven:root", "POST", bindings, absent, 422, `"error"`)
	}
	answer := b.want("proven:root", "POST", bindings, `{"principalName":"ann","local":true,"role":"ops","tenantName":"blue"}`, 201, `"Role":"ops","TenantName":"blue"`)
	var bound boundRole
	if err := json.Unmarshal([]byte(answer), &bound); err != nil || len(bound.ID) != 36 {
		t.Fatalf("%s, %v", answer, err)
	}
	b.want(ann, "GET", "networks", "", 200, "blue:web")
	b.want(ann, "GET", logins.WhoAmIPath, "", 200, `"identity":"user/ann","mode":"enforced","roles":[{"role":"tenant-admin","tenant":"blue"}],"expires"`)
	b.want("proven:node/h1", "GET", logins.WhoAmIPath, "", 200, `"identity":"node/h1"`)
	// a tenant's administrator grants roles in the tenant, and sees no others
	b.want("proven:root", "POST", users, `{"username":"bob","password":"`+goodPassword+`"}`, 201, "")
	b.want(ann, "POST", bindings, `{"principalName":"bob","local":true,"role":"viewer","tenantName":"blue"}`, 201, "")
	b.want(ann, "POST", bindings, `{"principalName":"bob","local":true,"role":"viewer","tenantName":"red"}`, 403, "Insufficient")
	b.want(ann, "POST", bindings, `{"principalName":"ann","local":true,"role":"admin"}`, 403, "Insufficient")
	foreign := b.want("proven:root", "POST", bindings, `{"principalName":"cn=x,ou=a/b","local":false,"role":"admin"}`, 201, `"PrincipalName":"cn=x,ou=a/b","Local":false,"Role":"admin","TenantName":""`)
	if all := b.want(ann, "GET", bindings, "", 200, "bob"); strings.Contains(all, "cn=x") {
		t.Errorf("others' bindings are shown: %s", all)
	}
	var admins boundRole
	if err := json.Unmarshal([]byte(foreign), &admins); err != nil {
		t.Fatal(err)
	}
	b.want(ann, "GET", bindings+admins.ID+"/", "", 403, "")
	b.want(ann, "DELETE", bindings+admins.ID+"/", "", 403, "")
	b.want("proven:root", "GET", bindings+"none/", "", 404, `"error"`)
	// the own account, but not whether it is disabled
	b.want(ann, "GET", users+"ann/", "", 200, `"first_name":"Ann"`)
	b.want(ann, "GET", users+"bob/", "", 403, "")
	b.want(ann, "PATCH", users+"ann/", `{"disable":false}`, 403, "")
	b.want(ann, "PATCH", users+"ann/", `{"last_name":"A"}`, 200, `"last_name":"A"`)
	b.want(ann, "PATCH", users+"ann/", `{"last_name":"A\u009b"}`, 400, `control character`) // who lists all users could not, as YAML
	b.want("", "GET", logins.AuthPath+"/version/", "", 200, `"version"`)
	b.want("", "GET", logins.AuthPath+"/health/", "", 200, `"netmaster":{`)
	// sessions end by logout, by a new password, with their user and after their time
	for name, end := range map[string]func(token string){
		"logout":       func(token string) { b.want(token, "POST", logins.AuthPath+"/logout/", "", 204, "") },
		"new password": func(token string) { b.want(token, "PATCH", users+"ann/", `{"password":"`+goodPassword+`"}`, 200, "") },
		"time":         func(string) { ahead.Add(int64(accounts.SessionLife)) },
	} {
		token := b.login("ann", goodPassword)
		b.want(token, "GET", "tenants", "", 200, "blue")
		end(token)
		if code, answer, _ := b.as(token, "GET", "tenants", ""); code != 401 {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
	last := b.login("ann", goodPassword)
	b.want("proven:root", "DELETE", users+"ann/", "", 204, "")
	b.want(last, "GET", "tenants", "", 401, "")
	b.want("proven:root", "POST", users, `{"username":"ann","password":"`+goodPassword+`"}`, 201, "")
	b.want(last, "GET", "tenants", "", 401, "")
	b.want(b.login("ann", goodPassword), "GET", "networks", "", 200, "[]") // without the roles of the other ann
}

// Bad logins: all get the same text, and none leaves a trace except for a line in the audit log, if an account was
// named.
func TestBadLogins(t *testing.T) {
	log := newAudited(t)
	b, ahead := proxied(t, log.of)
	b.want("proven:root", "POST", logins.AuthPath+"/local_users/", `{"username":"ann","password":"`+goodPassword+`"}`, 201, "")
	b.want("proven:root", "POST", logins.AuthPath+"/local_users/", `{"username":"off","password":"`+goodPassword+`","disable":true}`, 201, "")
	before := storetest.Dump(b, b.db)
	log.news()
	told := 0 // of those without the name of an account
	const nobody = "a name that nobody can have"
	for name, c := range map[string]struct {
		body  string
		code  int
		about string
	}{
		"wrong":       {`{"username":"ann","password":"` + goodPassword + ` "}`, 401, "ann"},
		"unknown":     {`{"username":"none","password":"` + goodPassword + `"}`, 401, "none"},
		"disabled":    {`{"username":"off","password":"` + goodPassword + `"}`, 401, "off"},
		"LDAP":        {`{"username":"*)(uid=*","password":"` + goodPassword + `"}`, 401, nobody},
		"path":        {`{"username":"../obj","password":"` + goodPassword + `"}`, 401, nobody},
		"long":        {`{"username":"ann","password":"` + strings.Repeat("a", accounts.MaxPassword+1) + `"}`, 401, "ann"},
		"empty":       {`{"username":"ann","password":""}`, 400, ""},
		"no name":     {`{"password":"` + goodPassword + `"}`, 400, ""},
		"no JSON":     {`username=ann`, 400, ""},
		"other types": {`{"username":1,"password":[]}`, 400, ""},
		"10 MiB":      {`{"username":"ann","password":"` + strings.Repeat("a", 10<<20) + `"}`, 413, ""},
	} {
		code, answer, _ := b.do("POST", logins.AuthPath+"/login/", c.body)
		var said struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &said); err != nil || code != c.code || code == 401 && said.Error != "Invalid username/password" || strings.Contains(answer, goodPassword) {
			t.Errorf("%s: %d %.200s, want %d", name, code, answer, c.code)
		}
		if c.about == "" {
			told += len(log.news())
			continue
		}
		log.says(name, audit.Entry{Verb: "POST", Key: logins.AuthPath + "/login/", About: c.about, Decision: audit.Denied, Status: c.code, Reason: said.Error})
	}
	if told == 0 {
		t.Error("no line tells of those that name no account")
	}
	if !maps.Equal(before, storetest.Dump(b, b.db)) {
		t.Error("bad logins left something in the store")
	}
	// password guesses have to wait; sessions and other users do not
	session := b.user("eve", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	var header http.Header
	code := 0
	for range 10 {
		if code, _, header = b.do("POST", logins.AuthPath+"/login/", `{"username":"ann","password":"wrong wrong wrong"}`); code == 429 {
			break
		}
		ahead.Add(int64(200 * time.Millisecond))
	}
	if code != 429 || header.Get("Retry-After") == "" {
		t.Errorf("many guesses: %d, Retry-After %q", code, header.Get("Retry-After"))
	}
	ahead.Add(int64(400 * time.Millisecond)) // less than half a second is left
	code, answer, header := b.do("POST", logins.AuthPath+"/login/", `{"username":"ann","password":"wrong wrong wrong"}`)
	if code != 429 || !strings.Contains(answer, "wait "+header.Get("Retry-After")+"s") {
		t.Errorf("a guess before the end of the wait: %d %s, Retry-After %q", code, answer, header.Get("Retry-After"))
	}
	b.want(session, "GET", "networks", "", 200, "blue:web")
	ahead.Add(int64(6 * time.Minute))
	b.login("ann", goodPassword)
}

// A right password is no guess, though the store accepts no session: the user can log in when it does.
func TestARightPasswordIsNoGuessWhateverBecomesOfTheSession(t *testing.T) {
	b, _ := directed(t) // which has ann
	b.want("proven:root", "POST", logins.AuthPath+"/local_users/", `{"username":"bob","password":"`+goodPassword+`"}`, 201, "")
	for _, name := range []string{"ann", "bob"} {
		b.given.Ledger = unsure{b.ledger}
		for range 7 { // more than a guesser has, fewer than an address
			b.want("", "POST", logins.AuthPath+"/login/", `{"username":"`+name+`","password":"`+goodPassword+`"}`, 503, "unknown outcome")
		}
		b.given.Ledger = b.ledger
		b.login(name, goodPassword)
	}
}

func TestAnOldHashIsReplacedAtTheNextLogin(t *testing.T) {
	b, _ := proxied(t)
	old, err := bcrypt.GenerateFromPassword([]byte(goodPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	b.plan(func(tx *ledger.Tx) error {
		return access.CreateUser(tx, mastercfg.LocalUser{Name: "ann", Password: string(old)}, time.Now())
	})
	first := b.login("ann", goodPassword)
	if stored := record[mastercfg.LocalUser](b, mastercfg.UserKey("ann")).Password; !strings.HasPrefix(stored, "$argon2id$") {
		t.Errorf("stored: %s", stored)
	}
	b.login("ann", goodPassword)
	b.want(first, "GET", logins.WhoAmIPath, "", 200, "ann")
	for _, value := range storetest.Dump(b, b.db) {
		if strings.Contains(value, first) || strings.Contains(value, goodPassword) || strings.Contains(value, first[len(first)-64:]) {
			t.Error("a password or a token is in the store")
		}
	}
}

func TestTheLastAdminStays(t *testing.T) {
	b, _ := proxied(t)
	admin := rights.Grant{Role: rights.Admin, Tenant: rights.Everywhere}
	ann := b.user("ann", admin)
	bob := b.user("bob", admin)
	var all []boundRole
	if err := json.Unmarshal([]byte(b.want(ann, "GET", logins.AuthPath+"/authorizations/", "", 200, "ann")), &all); err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	b.want(ann, "DELETE", logins.AuthPath+"/local_users/bob/", "", 204, "")
	b.want(bob, "GET", "tenants", "", 401, "")
	for _, last := range [][3]string{{"DELETE", "/local_users/ann/", ""}, {"PATCH", "/local_users/ann/", `{"disable":true}`}, {"DELETE", "/authorizations/" + all[0].ID + "/", ""}} {
		b.want(ann, last[0], logins.AuthPath+last[1], last[2], 409, "nobody would be left who is admin")
	}
	b.want("proven:root", "DELETE", logins.AuthPath+"/local_users/ann/", "", 204, "")
}

// Refused grants and revocations of roles: each has a line in the audit log with its intention, and changes
// nothing.
func TestRolesThatAreNotGivenOrTaken(t *testing.T) {
	log := newAudited(t)
	b, _ := proxied(t, log.of)
	ann := b.user("ann", rights.Grant{Role: rights.Admin, Tenant: rights.Everywhere})
	var all []boundRole
	const users, bindings = logins.AuthPath + "/local_users/", logins.AuthPath + "/authorizations/"
	if err := json.Unmarshal([]byte(b.want(ann, "GET", bindings, "", 200, "ann")), &all); err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	b.want(ann, "DELETE", "networks/red:web", "", 200, "")
	b.want(ann, "DELETE", "tenants/red", "", 200, "")
	const last = "user ann: nobody would be left who is admin"
	for name, c := range map[string]struct {
		method, path, body string
		code               int
		says               []string
		about, tenant      string
	}{
		"a role that there is not": {"POST", bindings, `{"principalName":"ann","local":true,"role":"king"}`, 400, []string{`role "king"`, "want one of"},
			"king in * for user/ann", ""},
		"a role of daemons": {"POST", bindings, `{"principalName":"ann","local":true,"role":"master"}`, 400, []string{`role "master"`, "want one of"},
			"master in * for user/ann", ""},
		"no role": {"POST", bindings, `{"principalName":"ann","local":true}`, 400, []string{`role ""`}, " in * for user/ann", ""},
		"a user whom there is not": {"POST", bindings, `{"principalName":"none","local":true,"role":"admin"}`, 422, []string{"principalName", "none"},
			"admin in * for user/none", ""},
		"a name that nobody can have": {"POST", bindings, `{"principalName":"../ann","local":true,"role":"admin"}`, 422, []string{"principalName", "../ann"},
			"admin in * for user/../ann", ""},
		"no principal": {"POST", bindings, `{"principalName":"","role":"admin"}`, 400, []string{"principalName", "want a name"}, "admin in * for group/", ""},
		"a long name": {"POST", bindings, `{"principalName":"` + strings.Repeat("x", 513) + `","role":"admin"}`, 400, []string{"principalName", "at most 512"},
			("admin in * for group/" + strings.Repeat("x", 513))[:512] + "...", ""},
		"a tenant that was deleted": {"POST", bindings, `{"principalName":"ann","local":true,"role":"ops","tenantName":"red"}`, 422, []string{`tenant "red" does not exist`},
			"tenant-admin in red for user/ann", "red"},
		"a role that nobody has": {"DELETE", bindings + "none/", "", 404, []string{`binding "none"`, "none of this id"}, "", ""},
		"the last admin goes":    {"DELETE", users + "ann/", "", 409, []string{last}, "", ""}, // the path names him
		"he is disabled":         {"PATCH", users + "ann/", `{"disable":true}`, 409, []string{last}, "user/ann: disable=true", ""},
		"he gives up the role":   {"DELETE", bindings + all[0].ID + "/", "", 409, []string{last}, "admin in * for user/ann", ""},
	} {
		before := storetest.Dump(b, b.db)
		log.news()
		code, answer, _ := b.as(ann, c.method, c.path, c.body)
		for _, part := range c.says {
			var said struct{ Error string }
			if err := json.Unmarshal([]byte(answer), &said); err != nil || code != c.code || !strings.Contains(said.Error, part) {
				t.Errorf("%s: %d %s, want %d and %s", name, code, answer, c.code, part)
			}
		}
		log.says(name, audit.Entry{Verb: c.method, Key: c.path, About: c.about, Tenant: c.tenant, Decision: audit.Allowed, Status: c.code})
		if !maps.Equal(before, storetest.Dump(b, b.db)) {
			t.Errorf("%s: it left a trace", name)
		}
	}
	b.want(ann, "GET", logins.WhoAmIPath, "", 200, `"role":"admin"`)
}

// Groups with role admin count while the directory or provider they come from is configured.
func TestAGroupMayBeTheLastAdmin(t *testing.T) {
	admin := rights.Grant{Role: rights.Admin, Tenant: rights.Everywhere}
	const refusal = "nobody would be left who is admin"
	for group, place := range map[string][2]string{
		"cn=admins,dc=example": {mastercfg.DirectoryKey, directoryPath},
		"oidc:admins":          {mastercfg.OpenIDKey, providerPath},
	} {
		b, _ := proxied(t)
		ann := b.user("ann", admin)
		leaves := func(code int, part string) {
			t.Helper()
			b.want(ann, "PATCH", logins.AuthPath+"/local_users/ann/", `{"disable":true}`, code, part)
		}
		b.want(ann, "POST", logins.AuthPath+"/authorizations/", `{"principalName":"`+group+`","local":false,"role":"admin"}`, 201, "")
		leaves(409, refusal)
		b.plan(func(tx *ledger.Tx) error { return ledger.Write(tx, place[0], mastercfg.OpenID{}) })
		var token shownToken
		if err := json.Unmarshal([]byte(b.want(ann, "POST", tokensPath+"/", `{"name":"ci","role":"admin","tenants":["*"]}`, 201, "")), &token); err != nil {
			t.Fatal(err)
		}
		leaves(200, "")
		b.want(token.Token, "DELETE", place[1]+"/", "", 409, "token ci: "+refusal)
		b.want(token.Token, "DELETE", logins.AuthPath+"/local_users/ann/", "", 204, "")
		var all []boundRole
		if err := json.Unmarshal([]byte(b.want(token.Token, "GET", logins.AuthPath+"/authorizations/", "", 200, "")), &all); err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		b.want(token.Token, "DELETE", logins.AuthPath+"/authorizations/"+all[0].ID+"/", "", 409, refusal)
		b.want("proven:root", "DELETE", place[1]+"/", "", 204, "")
		// only the token is left, which may revoke nothing
		b.want(token.Token, "POST", logins.AuthPath+"/local_users/", `{"username":"bob","password":"`+goodPassword+`"}`, 201, "")
		b.want(token.Token, "PATCH", logins.AuthPath+"/local_users/bob/", `{"disable":true}`, 200, "")
		b.want(token.Token, "DELETE", logins.AuthPath+"/local_users/bob/", "", 204, "")
	}
}

func TestAPITokensAreShownOnceAndEnd(t *testing.T) {
	b, ahead := proxied(t)
	const tokens = logins.AuthPath + "/tokens/"
	for _, bad := range []string{`{"name":"ci","role":"viewer"}`, `{"name":"c i","role":"viewer","tenants":["*"]}`, `{"name":"ci","role":"node","tenants":["*"]}`,
		`{"name":"ci","role":"admin","tenants":["blue"]}`, `{"name":"ci","role":"viewer","tenants":["*"],"ttl":"9000h"}`, `{"name":"ci","role":"viewer","tenants":["*"],"ttl":"-1h"}`,
		`{"name":"ci","role":"viewer","tenants":["*"],"ttl":"soon"}`} {
		b.want("proven:root", "POST", tokens, bad, 400, `"error"`)
	}
	b.want("proven:root", "POST", tokens, `{"name":"ci","role":"viewer","tenants":["none"]}`, 422, `"error"`)
	var made shownToken
	if err := json.Unmarshal([]byte(b.want("proven:root", "POST", tokens, `{"name":"ci","role":"viewer","tenants":["blue"],"ttl":"24h"}`, 201, `"creator":"root"`)), &made); err != nil {
		t.Fatal(err)
	}
	b.want("proven:root", "POST", tokens, `{"name":"ci","role":"viewer","tenants":["blue"]}`, 409, "exists")
	b.want(made.Token, "GET", logins.WhoAmIPath, "", 200, `"identity":"token/ci"`)
	b.want(made.Token, "GET", "networks", "", 200, "blue:web")
	if all := b.want("proven:root", "GET", tokens, "", 200, `"name":"ci"`); strings.Contains(all, "ctv1_") || strings.Contains(all, "igest") {
		t.Errorf("tokens are shown: %s", all)
	}
	ahead.Add(int64(24 * time.Hour))
	b.want(made.Token, "GET", "networks", "", 401, "expired")
	b.want("proven:root", "DELETE", tokens+"ci/", "", 204, "")
	b.want("proven:root", "DELETE", tokens+"ci/", "", 404, "")
}

// Roles in a deleted tenant do not apply to a later tenant with its name.
func TestRolesGoWithTheirTenant(t *testing.T) {
	b, _ := proxied(t)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "red"}, rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	b.want(ann, "GET", "networks/red:web", "", 200, "")
	b.want(ann, "DELETE", "networks/red:web", "", 200, "")
	b.want("proven:root", "DELETE", "tenants/red", "", 200, "")
	b.want("proven:root", "POST", logins.AuthPath+"/authorizations/", `{"principalName":"ann","local":true,"role":"viewer","tenantName":"red"}`, 422, "does not exist")
	b.want("proven:root", "POST", "tenants/red", `{"tenantName":"red"}`, 200, "")
	b.want(ann, "GET", "tenants/red", "", 403, "")
	b.want(ann, "GET", "tenants/blue", "", 200, "")
}

// A tenant's administrator may grant roles in it to any user, but not fill the store.
func TestBindingsOfATenantAreBoundedAndLeaveNothing(t *testing.T) {
	b, _ := proxied(t)
	group := func(name string) string {
		return `{"principalName":"` + name + `","local":false,"role":"viewer","tenantName":"blue"}`
	}
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	bindings := logins.AuthPath + "/authorizations/"
	var bound boundRole
	dump := func() map[string]string {
		all := storetest.Dump(b, b.db)
		delete(all, mastercfg.GroupsKey) // one for all groups that go
		return all
	}
	before := dump()
	if err := json.Unmarshal([]byte(b.want(ann, "POST", bindings, group("cn=x"), 201, "")), &bound); err != nil {
		t.Fatal(err)
	}
	b.want(ann, "DELETE", bindings+bound.ID, "", 204, "")
	if !maps.Equal(before, dump()) {
		t.Error("a binding that is gone left something in the store")
	}
	b.plan(func(tx *ledger.Tx) error {
		full := mastercfg.Bindings{Principal: "cn=many", Bindings: make([]mastercfg.Binding, 999)}
		for i := range full.Bindings {
			full.Bindings[i] = mastercfg.Binding{ID: fmt.Sprint(i), Role: string(rights.Viewer), Tenant: "blue"}
		}
		return ledger.Write(tx, mastercfg.GroupBindingsKey("cn=many"), full)
	})
	b.want(ann, "POST", bindings, group("cn=y"), 409, "there can be no more")
	b.want("proven:root", "POST", bindings, strings.Replace(group("cn=y"), "blue", "red", 1), 201, "")
}

// An open cluster has none of these routes: changes by any client would count once it is closed.
func TestAnOpenClusterHasNoUsers(t *testing.T) {
	b := ready(t)
	for _, path := range []string{"/login/", "/local_users/", "/authorizations/", "/tokens/", "/version/"} {
		for _, method := range []string{"GET", "POST"} {
			if code, answer, _ := b.do(method, logins.AuthPath+path, "{}", auth.TokenHeader, "anything"); code != 404 || answer != "404 page not found" {
				t.Errorf("%s %s: %d %s", method, path, code, answer)
			}
		}
	}
}
