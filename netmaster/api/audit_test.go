package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// The keys of the CAs permit any identity: handing them to a netmaster is audited, although it is a read.
func TestThatTheAuthoritiesWereHandedOverIsWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	j := startJoin(t, func(c *Config) { c.Audit = log })
	j.mode(mastercfg.SecurityEnforced)
	for who, code := range map[string]int{"master/m2": 200, "node/h1": 403} {
		r := httptest.NewRequest("GET", "https://m1"+mastercfg.AuthoritiesPath, nil)
		w := httptest.NewRecorder()
		j.api.ServeHTTP(w, r.WithContext(identity.With(r.Context(), j.proven(who))))
		if w.Code != code {
			t.Errorf("%s: %d", who, w.Code)
		}
	}
	text := linesOf(t, log, path)
	given, refused := `"principal":"master/m2"`, `"principal":"node/h1"`
	if c, err := audit.Verify(path); c.Lines != 2 || err != nil || !strings.Contains(text, given) || !strings.Contains(text, refused) || strings.Contains(text, "PRIVATE") {
		t.Errorf("%d lines, %v:\n%s", c.Lines, err, text)
	}
}

func TestChangesAndRefusalsAreWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Audit = log })
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want(ann, "GET", "networks/blue:web", "", 200, "") // a read that is allowed is not
	b.want(ann, "POST", "networks/blue:green", green, 200, "")
	b.want(ann, "GET", "networks/red:web", "", 403, "")
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"eve","password":"wrong wrong wrong"}`, 401, "")
	b.want(ann, "POST", "/nowhere", "", 404, "") // no route has it
	b.want("", "POST", "/nowhere", "", 401, "")
	b.do("GET", "tenants", "", auth.TokenHeader, ann, provenHeader, "node/h1") // who says that he is two
	b.mode(mastercfg.SecurityPermissive)
	b.want("", "DELETE", "networks/blue:green", "", 200, "")
	text := linesOf(t, log, path)
	if c, err := audit.Verify(path); c.Lines != 5 || err != nil || strings.Contains(text, ann[40:]) || strings.Contains(text, "wrong wrong") {
		t.Fatalf("%d lines, %v:\n%s", c.Lines, err, text)
	}
	want := []audit.Entry{
		{Principal: "user/ann", How: "token", Verb: "POST", Key: "/api/v1/networks/blue:green/", Tenant: "blue", Decision: audit.Allowed, Status: 200},
		{Principal: "user/ann", How: "token", Verb: "GET", Key: "/api/v1/networks/red:web/", Tenant: "red", Decision: audit.Denied, Status: 403},
		{Principal: "nobody", How: "nothing", Verb: "POST", Key: logins.AuthPath + "/login/", About: "eve", Decision: audit.Denied, Status: 401},
		{Principal: "node/h1", How: "certificate", Verb: "GET", Key: "/api/v1/tenants/", Decision: audit.Denied, Status: 400},
		{Principal: "nobody", How: "nothing", Verb: "DELETE", Key: "/api/v1/networks/blue:green/", Tenant: "blue", Decision: audit.WouldRefuse, Status: 200},
	}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Time.IsZero() || e.Request == "" || e.Source != "127.0.0.1" || (e.Revision != "") != (e.Status == 200) || (e.Reason != "") != (e.Decision != audit.Allowed) {
			t.Errorf("%s", line)
		}
		e.Time, e.Request, e.Source, e.Revision, e.Reason, e.Previous = want[i].Time, "", "", "", "", ""
		if !reflect.DeepEqual(e, want[i]) {
			t.Errorf("%+v, want %+v", e, want[i])
		}
	}
}

// Requests without an identity, however many, do not displace lines about others in the files.
func TestRefusalsOfNobodyAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	now := atomic.Pointer[time.Time]{}
	tell := func(at time.Time) { now.Store(&at) }
	begin := time.Now()
	tell(begin)
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) {
		c.Audit, c.Now, c.ClientRate = log, func() time.Time { return *now.Load() }, rate.Inf
	})
	ann := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	const asked = 300
	for i := range asked {
		if i%2 == 0 {
			b.want("", "GET", fmt.Sprintf("networks/blue:%d", i), "", 401, "")
		} else {
			b.want("", "POST", mastercfg.RenewPath, "{}", 500, "host")
		}
		if i%100 == 0 {
			b.want(ann, "GET", "networks/red:web", "", 403, "")
			b.want("", "POST", logins.AuthPath+"/login/", `{"username":"eve","password":"wrong wrong wrong"}`, 401, "")
		}
	}
	const refused = 50 // tries that are not checked
	for i := range 2 + refused {
		status := 401
		if i >= 2 {
			status = 429
		}
		b.want("", "POST", logins.AuthPath+"/login/", `{"username":"eve","password":"wrong wrong wrong"}`, status, "")
	}
	tell(begin.Add(11 * time.Second))
	b.want("", "GET", "networks/blue:last", "", 401, "")
	text := linesOf(t, log, path)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var last audit.Entry
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	count := func(part string) int { return strings.Count(text, part) }
	if len(lines) != 2+3+5 || count(`"user/ann"`) != 3 || count(`"about":"eve"`) != 5 || last.Untold != asked+refused-1 || !strings.HasSuffix(last.Key, "blue:last/") {
		t.Errorf("%d lines, %d of ann, %d of tries to log in; the last one %+v", len(lines), count(`"user/ann"`), count(`"about":"eve"`), last)
	}
}

// The first refusals of a known client are each audited, to show what it attempts; thousands more are only
// counted, so that they do not displace lines about changes.
func TestManyRefusalsOfOneAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	begin := time.Now()
	now := atomic.Pointer[time.Time]{}
	now.Store(&begin)
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) {
		c.Audit, c.Now, c.ClientRate = log, func() time.Time { return *now.Load() }, rate.Inf
	})
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	const asked, told = 300, 100
	for range asked {
		b.want(ann, "GET", "networks/red:web", "", 403, "")
	}
	b.want(ann, "POST", "endpointGroups/blue:g", `{"tenantName":"blue","groupName":"g","networkName":"web"}`, 200, "") // changes have lines all the same
	later := begin.Add(11 * time.Second)
	now.Store(&later)
	b.want(ann, "GET", "networks/red:last", "", 403, "")
	lines := strings.Split(strings.TrimSpace(linesOf(t, log, path)), "\n")
	var last audit.Entry
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if len(lines) != told+1+1 || last.Untold != asked-told || !strings.HasSuffix(last.Key, "red:last/") {
		t.Errorf("%d lines; the last one %+v", len(lines), last)
	}
}

// Requests that an enforced cluster would have refused are counted in the same way, if they were reads.
func TestManyReadsThatWouldBeRefusedAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	begin := time.Now()
	b := secured(t, mastercfg.SecurityPermissive, func(c *Config) {
		c.Audit, c.Now, c.ClientRate = log, func() time.Time { return begin }, rate.Inf
	})
	const asked, told, changed = 300, 100, 3
	for range asked {
		b.want("", "GET", "networks/blue:web", "", 200, "")
	}
	for i := range changed {
		b.want("", "POST", fmt.Sprintf("endpointGroups/blue:g%d", i), fmt.Sprintf(`{"tenantName":"blue","groupName":"g%d","networkName":"web"}`, i), 200, "")
	}
	lines := strings.Split(strings.TrimSpace(linesOf(t, log, path)), "\n")
	if len(lines) != told+changed {
		t.Errorf("%d lines", len(lines))
	}
}

// In strict mode a change that cannot be recorded is not carried out; one that is has two lines.
func TestWhatCannotBeWrittenDownIsNotDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	log := audit.New(filepath.Join(dir, "audit.log"), testkit.Quiet())
	log.Strict()
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { log.Run(ctx) })
	defer func() { cancel(); writing.Wait() }()
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Audit = log })
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // where a folder is wanted
		t.Fatal(err)
	}
	before := storetest.Dump(b, b.db)
	for _, change := range [][3]string{{"POST", "networks/blue:green", green}, {"DELETE", "networks/blue:web", ""}, {"POST", rest.ApplyPath, `{"operations":[]}`},
		{"POST", logins.AuthPath + "/login/", `{"username":"ann","password":"wrong wrong wrong"}`}} {
		if code, answer, header := b.do(change[0], change[1], change[2], auth.TokenHeader, ann, "Accept", fault.ProblemType); code != 503 || !strings.Contains(answer, "nothing can be written down") || header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s", change[0], change[1], code, answer)
		}
	}
	b.want(ann, "GET", "networks/blue:web", "", 200, "")
	b.want(ann, "POST", "networks/red:green", green, 403, "") // who may not is told that
	if !maps.Equal(before, storetest.Dump(b, b.db)) {
		t.Error("something has changed")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	b.want(ann, "POST", "networks/blue:green", green, 200, "")
	cancel()
	writing.Wait()
	text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []audit.Entry
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, e)
	}
	last := lines[max(0, len(lines)-2):]
	if len(last) != 2 || last[0].Decision != audit.Begun || last[0].Status != 0 || last[1].Decision != audit.Allowed || last[1].Status != 200 || last[0].Request != last[1].Request || last[0].Tenant != "blue" {
		t.Errorf("%s", text)
	}
}

// unsure is a ledger whose answers are lost, although it commits.
type unsure struct{ auth.Ledger }

func (u unsure) Update(ctx context.Context, plan func(*ledger.Tx) error) (int64, error) {
	if _, err := u.Ledger.Update(ctx, plan); err != nil {
		return 0, err
	}
	return 0, fault.New(fault.Unavailable, "commit with unknown outcome")
}

// A request of unknown outcome is recorded, however many refusals there were before it.
func TestAJoinOfUnknownOutcomeIsWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	j := startJoin(t, func(c *Config) { c.Audit = log })
	token := j.token(`{"role":"node"}`).Token
	j.mode(mastercfg.SecurityEnforced)
	wrong := token[:20] + strings.Map(func(rune) rune { return 'a' }, token[20:])
	for range 3 {
		if _, refused := j.join(newMachine(t, "h1"), wrong); refused == "" {
			t.Fatal("joined with another secret")
		}
	}
	j.given.Ledger = unsure{j.ledger}
	for range 2 {
		if _, refused := j.join(newMachine(t, "h1"), wrong); strings.Contains(refused, "unknown outcome") {
			t.Fatal(refused)
		}
	}
	if _, refused := j.join(newMachine(t, "h1"), token); !strings.Contains(refused, "unknown outcome") {
		t.Fatalf("refused: %q", refused)
	}
	text := linesOf(t, log, path)
	if n := strings.Count(text, `"key":"`+mastercfg.JoinPath+`"`); n != 2 {
		t.Errorf("%d lines about joins, want that of the first refusal and that of what may have happened:\n%s", n, text)
	}
}

// A client with an expired session has no identity. The line has the session's former user.
func TestTheLineOfWhoseSessionHasEndedSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Audit = log })
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want("proven:root", "PATCH", usersPath+"/ann/", `{"disable":true}`, 200, "")
	b.want(ann, "POST", "networks/blue:green", green, 401, "")
	if text := linesOf(t, log, path); !strings.Contains(text, `"reason":"user ann is not known, or disabled","status":401`) {
		t.Errorf("%s", text)
	}
}

// linesOf returns the content of an audit log at path when it ends.
func linesOf(t *testing.T, log *audit.Log, path string) string {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ended)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
