package api

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// audited is an audit log that a test reads while it is written.
type audited struct {
	*testing.T
	log  *audit.Log
	path string
	read int // lines
}

func newAudited(t *testing.T) *audited {
	path := filepath.Join(t.TempDir(), "audit.log")
	return &audited{T: t, log: audit.New(path, testkit.Quiet()), path: path}
}

// of has an API write it.
func (a *audited) of(c *Config) { c.Audit = a.log }

// news returns the lines since the last call.
func (a *audited) news() (entries []audit.Entry) {
	a.Helper()
	if a.read == 0 {
		a.log.Add(audit.Entry{Principal: "the test"}) // so that there is a file
	}
	text := linesOf(a.T, a.log, a.path)
	if _, err := audit.Verify(a.path); err != nil {
		a.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines[a.read:] {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			a.Fatal(err)
		}
		if e.Principal != "the test" {
			entries = append(entries, e)
		}
	}
	a.read = len(lines)
	return entries
}

// about returns the lines since the last call, once they are about so many objects. A long answer arrives before
// its lines.
func (a *audited) about(objects int) (entries []audit.Entry) {
	a.Helper()
	testkit.Eventually(a.T, 10*time.Second, "the log has the lines", func() bool {
		entries = append(entries, a.news()...)
		found := 0
		for _, e := range entries {
			found += len(e.Objects) + e.More
		}
		return found >= objects
	})
	return entries
}

// says fails unless there is one line since the last call, with the path and the wanted fields; of the reason a
// part. A denied line has to have a reason, and others none.
func (a *audited) says(about string, want audit.Entry) {
	a.Helper()
	entries := a.news()
	if len(entries) != 1 {
		a.Errorf("%s: %d lines, want one: %+v", about, len(entries), entries)
		return
	}
	got := entries[0]
	if got.Verb != want.Verb || got.Key != want.Key || got.About != want.About || got.Tenant != want.Tenant || got.Decision != want.Decision || got.Status != want.Status ||
		!strings.Contains(got.Reason, want.Reason) || (got.Reason != "") != (got.Decision == audit.Denied) {
		a.Errorf("%s: %+v\nwant %+v", about, got, want)
	}
}

// The line has details that are not in the path: which role was granted to which user and where, and the token
// that authenticates the user from now on.
func TestTheAuditLogSaysWhoWasGivenWhat(t *testing.T) {
	log := newAudited(t)
	b := secured(t, mastercfg.SecurityEnforced, log.of, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Keyring = keyring.In(t.TempDir())
	})
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	const bindings = logins.AuthPath + "/authorizations/"
	log.news()
	long := "cn=" + strings.Repeat("x", 500)
	var answer string
	for _, c := range []struct {
		who, method, path, body string
		code                    int
		about, tenant, reason   string
	}{
		{"proven:root", "POST", usersPath + "/", `{"username":"bob","password":"` + goodPassword + `"}`, 201, "user/bob: password", "", ""},
		{"proven:root", "PATCH", usersPath + "/bob/", `{"disable":true,"first_name":"B"}`, 200, "user/bob: first_name, disable=true", "", ""},
		{ann, "PATCH", usersPath + "/bob/", `{"password":"` + goodPassword + `"}`, 403, "user/bob: password", "", "user/ann may not change"},
		{ann, "POST", bindings, `{"principalName":"bob","local":true,"role":"viewer","tenantName":"blue"}`, 201, "viewer in blue for user/bob", "blue", ""},
		{ann, "POST", bindings, `{"principalName":"bob","local":true,"role":"viewer","tenantName":"red"}`, 403, "viewer in red for user/bob", "red", "user/ann may not give or take roles"},
		{"proven:root", "POST", bindings, `{"principalName":"bob","local":true,"role":"ops","tenantName":"red"}`, 201, "tenant-admin in red for user/bob", "red", ""},
		{"proven:root", "POST", bindings, `{"principalName":"` + long + `","local":false,"role":"admin"}`, 201, ("admin in * for group/" + long)[:512] + "...", "", ""},
		{"proven:root", "DELETE", bindings + "ID/", "", 204, ("admin in * for group/" + long)[:512] + "...", "", ""},
		{"proven:root", "POST", tokensPath + "/", `{"name":"ci","role":"viewer","tenants":["red","blue","red"]}`, 201, "token/ci: viewer in blue,red", "", ""},
		{"proven:root", "POST", tokensPath + "/", `{"name":"ci","role":"admin","tenants":["*"]}`, 409, "token/ci: admin in *", "", ""},
		{"proven:root", "DELETE", tokensPath + "/ci/", "", 204, "token/ci: viewer in blue,red", "", ""},
		{"proven:root", "PUT", directoryPath + "/", `{"server":"127.0.0.1","port":1,"base_dn":"dc=x","service_account_dn":"cn=x","start_tls":true,"service_account_password":"y"}`, 201, "server 127.0.0.1, port 1", "", ""},
		{"proven:root", "PUT", providerPath + "/", `{"issuer":"https://127.0.0.1:1","client_id":"contiv","client_secret":"s"}`, 201, "issuer https://127.0.0.1:1", "", ""},
		{"proven:node/h1", "POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"another","ConfigEP":{"Container":"e1","Host":"h1"}}`, 200, "endpoint e1 in network blue:web", "blue", ""},
		{"proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"e1"}`, 200, "endpoint e1 in network blue:web", "blue", ""},
		{"proven:root", "POST", mastercfg.SecurityPath + "/relax", "", 200, "from enforced to permissive", "", ""},
	} {
		if strings.Contains(c.path, "ID") {
			var bound boundRole
			if err := json.Unmarshal([]byte(answer), &bound); err != nil {
				t.Fatal(err)
			}
			c.path = strings.Replace(c.path, "ID", bound.ID, 1)
		}
		answer = b.want(c.who, c.method, c.path, c.body, c.code, "")
		want := audit.Entry{Verb: c.method, Key: c.path, About: c.about, Tenant: c.tenant, Decision: audit.Allowed, Status: c.code, Reason: c.reason}
		if c.reason != "" {
			want.Decision = audit.Denied
		}
		log.says(c.method+" "+c.body, want)
	}
}

// The lines have the identity that has joined, its key and token, and whose key was revoked.
func TestTheAuditLogSaysWhoHasJoined(t *testing.T) {
	log := newAudited(t)
	j := startJoin(t, log.of)
	j.mode(mastercfg.SecurityEnforced)
	log.news()
	line := func(verb, path, about string) audit.Entry {
		return audit.Entry{Verb: verb, Key: path, About: about, Decision: audit.Allowed, Status: 200}
	}
	shown := j.token(`{"role":"node","host":"h*","uses":3,"tenants":["blue","red"]}`)
	about := "join token " + shown.Record.ID + " for node/h*, 3 times, until 2026-11-23T12:00:00Z, in blue,red"
	log.says("a token", line("POST", mastercfg.JoinTokensPath, about))
	h1 := newMachine(t, "h1")
	if _, refused := j.join(h1, shown.Token); refused != "" {
		t.Fatal(refused)
	}
	key := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1").Key
	log.says("a node", line("POST", mastercfg.JoinPath, "node/h1 with key "+key+" by join token "+shown.Record.ID))
	if _, refused := j.renew(h1); refused != "" {
		t.Fatal(refused)
	}
	log.says("it renews", line("POST", mastercfg.RenewPath, "node/h1 with key "+key))
	j.user("bob")
	j.want("", "POST", usersPath+"/bob/certificates", string(must(json.Marshal(map[string][]byte{"csr": h1.csr}))), 201, "")
	certified := line("POST", usersPath+"/bob/certificates", "user/bob with key "+key)
	certified.Status = 201
	log.says("a user", certified)
	j.ok("POST", mastercfg.RotatePath, `{"dryRun":true}`)
	log.says("a dry run", line("POST", mastercfg.RotatePath, "step add, dry run"))
	j.ok("POST", mastercfg.NodesPath+"/h1/rekey", "")
	log.says("rekey", line("POST", mastercfg.NodesPath+"/h1/rekey", "node/h1 with key "+key))
	j.ok("DELETE", mastercfg.NodesPath+"/h1", "")
	log.says("rm", line("DELETE", mastercfg.NodesPath+"/h1", "node/h1 with key none"))
	j.ok("DELETE", mastercfg.JoinTokensPath+"/"+shown.Record.ID, "")
	log.says("the token goes", line("DELETE", mastercfg.JoinTokensPath+"/"+shown.Record.ID, about))
	if text := linesOf(t, log.log, log.path); strings.Contains(text, strings.Split(shown.Token, ".")[2]) {
		t.Error("the secret of the token is in the log")
	}
}

// Attempts with a stolen token are visible: each of the first ones is a line with the token and the denial, for
// whatever reason, while attempts without a token's secret are only counted.
func TestWhatIsTriedWithAStolenTokenIsWrittenDown(t *testing.T) {
	log := newAudited(t)
	j := startVouched(t, log.of)
	shown, once := j.token(`{"role":"node","host":"[hn]*","ttl":"1h"}`), j.token(`{"role":"node","uses":1}`)
	join := func(m machine, token string, vteps ...string) string {
		t.Helper()
		_, refused := tryPlug[mastercfg.JoinResponse](j.bench, mastercfg.JoinPath, mastercfg.JoinRequest{Token: token, Host: m.name, CSR: m.csr, VTEPs: vteps})
		return refused
	}
	gone, h1 := newMachine(t, "h0"), newMachine(t, "h1")
	for _, refused := range []string{join(h1, shown.Token, "192.0.2.1"), join(newMachine(t, "n79382"), shown.Token), join(gone, once.Token)} {
		if refused != "" {
			t.Fatal(refused)
		}
	}
	j.ok("DELETE", mastercfg.NodesPath+"/h0", "")
	j.mode(mastercfg.SecurityEnforced)
	log.news()
	denied := func(name string, m machine, by string, refused, reason string) {
		t.Helper()
		if refused == "" {
			t.Errorf("%s: it has joined", name)
		}
		entries := log.news()
		if len(entries) != 1 {
			t.Errorf("%s: %d lines", name, len(entries))
			return
		}
		e := entries[0]
		if e.Decision != audit.Denied || !strings.Contains(e.Reason, reason) || !strings.HasPrefix(e.About, "node/"+m.name+" with key ") || !strings.HasSuffix(e.About, by) || e.Key != mastercfg.JoinPath {
			t.Errorf("%s: %+v", name, e)
		}
	}
	byToken := func(t mastercfg.ShownJoinToken) string { return " by join token " + t.Record.ID }
	for _, c := range []struct {
		name   string
		token  mastercfg.ShownJoinToken
		m      machine
		vteps  []string
		reason string
	}{
		{"a name that is taken", shown, newMachine(t, "h1"), nil, "node h1 has joined with another key"},
		{"the tunnel end of another", shown, newMachine(t, "h2"), []string{"192.0.2.1"}, "its tunnel end 192.0.2.1 is that of node h1"},
		{"the leases of another", shown, newMachine(t, "n113427"), nil, "are those of node n79382"},
		{"another host", shown, newMachine(t, "w1"), nil, "it is for hosts named"},
		{"it was used", once, newMachine(t, "h3"), nil, "it was used 1 times"},
		{"a key that was taken back", shown, gone, nil, "was taken back"},
	} {
		denied(c.name, c.m, byToken(c.token), join(c.m, c.token.Token, c.vteps...), c.reason)
	}
	h2 := newMachine(t, "h2")
	body := string(must(json.Marshal(mastercfg.JoinRequest{Token: shown.Token, Host: "h1", CSR: h2.csr})))
	code, text, _ := j.do("POST", mastercfg.JoinPath, body, "Accept", fault.ProblemType) // other clients get 500 for all of these
	if code != 409 {
		t.Errorf("%d %s", code, text)
	}
	denied("with a proper status", machine{name: "h1"}, byToken(shown), text, "node h1 has joined with another key")
	denied("a name that is taken, vouched for", machine{name: "h9"}, ", vouched for", join(h2, "node-h9"), "it is that of node h9, and node h2 shows it")

	// without the secret
	parts := strings.Split(shown.Token, ".")
	parts[2] = strings.Repeat(parts[2][:1], len(parts[2]))
	for range 20 {
		if join(h2, strings.Join(parts, ".")) == "" || join(h2, "user-h2") == "" {
			t.Fatal("joined without a secret")
		}
	}
	entries := log.news()
	if len(entries) != 1 || entries[0].Decision != audit.Denied || entries[0].About != "" || !strings.Contains(entries[0].Reason, "none with this id and secret") {
		t.Errorf("without a secret: %+v", entries)
	}

	j.pass(2 * time.Hour)
	denied("it has expired", h2, byToken(shown), join(h2, shown.Token), "it expired at")
	const tried, told = 300, 100
	for range tried {
		join(h2, shown.Token)
	}
	if entries = log.news(); len(entries) < told-10 || len(entries) > told {
		t.Errorf("%d tries have %d lines", tried, len(entries))
	}
}

// An apply has lines that name each object that it has changed; one without effect, or a dry run, has one line,
// however many objects it has.
func TestTheAuditLogNamesWhatAnApplyHasChanged(t *testing.T) {
	log := newAudited(t)
	b := secured(t, mastercfg.SecurityEnforced, log.of)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	group := func(tenant string, i int) string {
		name := fmt.Sprintf("g%060d", i) // as long as such names get
		return apply("endpointGroup", fmt.Sprintf(`{"tenantName":%q,"groupName":%q,"networkName":"web"}`, tenant, name))
	}
	var operations, wanted []string
	const groups = 150
	for i := range groups {
		operations = append(operations, group("blue", i))
		if i > 0 {
			wanted = append(wanted, fmt.Sprintf("created endpointGroup blue:g%060d", i))
		}
	}
	b.want(ann, "POST", rest.ApplyPath, body(operations[:1]), 200, "created")
	if got := log.about(1); len(got) != 1 || !slices.Equal(got[0].Objects, []string{fmt.Sprintf("created endpointGroup blue:g%060d", 0)}) || got[0].Tenant != "blue" {
		t.Errorf("%+v", got)
	}

	b.want(ann, "POST", rest.ApplyPath+"?dryRun=true", body(operations), 200, "created")
	got := log.about(groups - 1)
	if len(got) != 1 || got[0].About != "dry run" || len(got[0].Objects)+got[0].More != groups-1 || got[0].More == 0 {
		t.Errorf("a dry run: %d lines, %+v", len(got), got)
	}

	both := append(slices.Clone(operations), group("red", 0))
	b.want(ann, "POST", rest.ApplyPath, body(both), 403, "")
	got = log.about(groups + 1)
	if len(got) != 1 || got[0].Decision != audit.Denied || len(got[0].Objects)+got[0].More != groups+1 || got[0].More == 0 || got[0].Tenant != "" || !strings.Contains(got[0].Reason, "of tenant red") {
		t.Errorf("denied: %d lines, %+v", len(got), got)
	}

	b.want(ann, "POST", rest.ApplyPath, body(append(operations, drop("network", "blue:web"))), 500, "")
	if got = log.about(groups + 1); len(got) != 1 || got[0].Decision != audit.Allowed || len(got[0].Objects)+got[0].More != groups+1 || got[0].Revision != "" {
		t.Errorf("refused: %d lines, %+v", len(got), got)
	}

	b.want(ann, "POST", rest.ApplyPath, body(operations), 200, "created")
	got = log.about(groups - 1)
	var named []string
	for _, e := range got {
		if e.Request != got[0].Request || e.Revision == "" || e.Revision != got[0].Revision || e.Tenant != "blue" || e.More != 0 || e.Status != 200 {
			t.Errorf("%+v", e)
		}
		named = append(named, e.Objects...)
	}
	if len(got) < 2 || !slices.Equal(named, wanted) {
		t.Errorf("%d lines name %d objects, want %d", len(got), len(named), len(wanted))
	}
}
