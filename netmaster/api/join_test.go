package api

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func TestATokenLetsNodesJoin(t *testing.T) {
	j := startJoin(t)
	shown := j.token(`{"role":"node","uses":1,"tenants":["blue"]}`)
	m := newMachine(t, "h1")
	answer, refused := j.join(m, shown.Token)
	if refused != "" {
		t.Fatal(refused)
	}
	j.belongs(answer, identity.Node, m)
	got := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1")
	if got.Key == "" || got.Token != shown.Record.ID || len(got.Tenants) != 1 || !got.Expires.Equal(j.now.Load().Add(pki.LeafLife)) {
		t.Errorf("record %+v", got)
	}
	if _, refused := j.join(newMachine(t, "h2"), shown.Token); !strings.Contains(refused, "used 1 times") {
		t.Errorf("another: %q", refused)
	}
	secret := strings.Split(shown.Token, ".")[2]
	for key, value := range storetest.Dump(t, j.db) {
		if strings.Contains(fmt.Sprint(key, value), secret) {
			t.Errorf("%s holds the secret of the token", key)
		}
	}
	if list := j.ok("GET", mastercfg.JoinTokensPath, ""); strings.Contains(list, secret) || strings.Contains(list, "digest") || !strings.Contains(list, `"used":1`) {
		t.Errorf("tokens: %s", list)
	}
}

// A node that did not receive the answer requests again: the token is used once, the record remains.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	j := startJoin(t)
	shown := j.token(`{"role":"node","uses":1}`)
	m := newMachine(t, "h1")
	if _, refused := j.join(m, shown.Token); refused != "" {
		t.Fatal(refused)
	}
	before := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1")
	answer, refused := j.join(m, shown.Token)
	if refused != "" {
		t.Fatal(refused)
	}
	j.belongs(answer, identity.Node, m)
	if after := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%+v became %+v", before, after)
	}
	// With other addresses it joins again: a node that has joined with them in between has priority.
	j.pass(time.Minute)
	if _, refused := tryPlug[mastercfg.JoinResponse](j.bench, mastercfg.JoinPath,
		mastercfg.JoinRequest{Token: shown.Token, Host: m.name, CSR: m.csr, Addresses: []string{"10.0.0.2"}}); refused != "" {
		t.Fatal(refused)
	}
	if after := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1"); !after.Joined.After(before.Joined) {
		t.Errorf("at %v it has joined at %s, as at %v", after.Addresses, after.Joined, before.Addresses)
	}
	if got := record[mastercfg.JoinToken](j.bench, mastercfg.JoinTokenPrefix+shown.Record.ID); got.Used != 1 {
		t.Errorf("used %d times", got.Used)
	}
}

func TestANameBelongsToAKey(t *testing.T) {
	log := newAudited(t)
	j := startJoin(t, log.of)
	shown := j.token(`{"role":"node"}`)
	j.mode(mastercfg.SecurityEnforced)
	m, thief := newMachine(t, "h1"), newMachine(t, "h1")
	if _, refused := j.join(m, shown.Token); refused != "" {
		t.Fatal(refused)
	}
	if _, refused := j.join(thief, shown.Token); !strings.Contains(refused, "joined with another key") {
		t.Errorf("another key: %q", refused)
	}
	// notRenewed checks that a certificate is refused, with a line in the audit log and no other trace.
	notRenewed := func(m machine, by identity.Identity) (text string) {
		t.Helper()
		j.pass(time.Minute) // refusals without an identity are audited once in a while
		before := storetest.Dump(t, j.db)
		log.news()
		body := string(must(json.Marshal(mastercfg.RenewRequest{Host: m.name, CSR: m.csr})))
		r := httptest.NewRequest("POST", "https://m1"+mastercfg.RenewPath, strings.NewReader(body))
		r.Header.Set("Accept", fault.ProblemType)
		r.TLS = new(tls.ConnectionState)
		w := httptest.NewRecorder()
		j.api.ServeHTTP(w, r.WithContext(identity.With(r.Context(), by)))
		const why = "not joined with the key of this request, or was removed or rekeyed since"
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "node "+m.name+" has "+why) || !strings.Contains(w.Body.String(), `"field":"`+mastercfg.KeyField+`"`) {
			t.Errorf("%s renews as %s: %d %s", by, m.name, w.Code, w.Body)
		}
		if entries := log.news(); len(entries) != 1 {
			t.Errorf("%s renews as %s: %d lines", by, m.name, len(entries))
		} else if e := entries[0]; e.Principal != by.String() || e.Verb != "POST" || e.Key != mastercfg.RenewPath || e.Decision != audit.Denied || e.Status != http.StatusForbidden ||
			e.About != "" || e.Revision != "" || !strings.Contains(e.Reason, why) {
			t.Errorf("%s renews as %s: %+v", by, m.name, e)
		}
		if !maps.Equal(before, storetest.Dump(t, j.db)) {
			t.Errorf("%s renews as %s: it left a trace", by, m.name)
		}
		return w.Body.String()
	}
	nobody := identity.Identity{}
	refused := notRenewed(thief, nobody)
	if unknown := notRenewed(newMachine(t, "h9"), nobody); strings.ReplaceAll(unknown, "h9", "h1") != refused {
		t.Errorf("who renews learns which nodes there are: %q, and %q", unknown, refused)
	}
	// Another node, which shows its certificate and has its own key certified under the name.
	other := newMachine(t, "h2")
	if _, refused := j.join(other, shown.Token); refused != "" {
		t.Fatal(refused)
	}
	other.name = "h1"
	notRenewed(other, identity.Identity{Kind: identity.Node, Name: "h2", KeyHash: must(pki.PublicKeyHash(&other.key.PublicKey))})
	if _, refused := j.renew(m); refused != "" {
		t.Errorf("whose name it is does not get a certificate any more: %s", refused)
	}
	if answer := j.ok("POST", mastercfg.NodesPath+"/h1/rekey", ""); answer != `"h1"` {
		t.Errorf("rekey: %s", answer)
	}
	notRenewed(m, nobody)
	if _, refused := j.join(thief, shown.Token); refused != "" {
		t.Errorf("after rekey: %s", refused)
	}
	if _, refused := j.join(m, shown.Token); refused == "" {
		t.Error("rekey allowed two to join")
	}
	j.ok("DELETE", mastercfg.NodesPath+"/h1", "")
	notRenewed(thief, nobody)
	if got := j.ok("GET", mastercfg.NodesPath, ""); strings.Contains(got, "h1") {
		t.Errorf("nodes: %s", got)
	}
	for _, c := range [][2]string{{"DELETE", "/h1"}, {"POST", "/h1/rekey"}} {
		if code, text, _ := j.do(c[0], mastercfg.NodesPath+c[1], "", "Accept", fault.ProblemType); code != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", c[0], c[1], code, text)
		}
	}
}

// The holder of a stolen key does not become the node again when the node joins again: the key is never accepted
// again, for this or another name, with any token.
func TestAKeyThatWasTakenBackNeverCountsAgain(t *testing.T) {
	j := startVouched(t)
	for i, c := range [][2]string{{"DELETE", "/h1"}, {"POST", "/h1/rekey"}} {
		stolen := newMachine(t, "h1")
		if _, refused := j.join(stolen, j.token(`{"role":"node"}`).Token); refused != "" {
			t.Fatal(refused)
		}
		j.ok(c[0], mastercfg.NodesPath+c[1], "")
		refusedAs := func(m machine, token, want string) {
			t.Helper()
			body, err := json.Marshal(mastercfg.JoinRequest{Token: token, Host: m.name, CSR: m.csr})
			if err != nil {
				t.Fatal(err)
			}
			code, text, _ := j.do("POST", mastercfg.JoinPath, string(body), "Accept", fault.ProblemType)
			if code != http.StatusForbidden || !strings.Contains(text, want) || strings.Contains(text, `"field":"csr"`) != strings.HasPrefix(want, "taken back") {
				t.Errorf("after %s, %s joins with %.8s: %d %s", c, m.name, token, code, text)
			}
		}
		const takenBack = "taken back from node h1"
		for _, m := range []machine{stolen, {"h2", stolen.key, stolen.csr}} {
			for _, token := range []string{j.token(`{"role":"node"}`).Token, "node-" + m.name} {
				refusedAs(m, token, takenBack)
			}
		}
		if _, refused := j.renew(stolen); refused == "" {
			t.Errorf("after %s: renewed", c)
		}
		anew := newMachine(t, "h1")
		once := j.token(`{"role":"node","uses":1}`).Token
		if _, refused := j.join(anew, once); refused != "" {
			t.Errorf("with another key: %s", refused)
		}
		// A node that was killed before it had stored the other key presents the old one first. The refusal always
		// names the key, whatever else is wrong, so that the node presents the other one next.
		refusedAs(stolen, j.token(`{"role":"node"}`).Token, takenBack)
		refusedAs(stolen, once, takenBack)
		// With the id of a token, but not its secret, the answer reveals neither.
		parts := strings.Split(once, ".")
		parts[2] = strings.Repeat(parts[2][:1], len(parts[2]))
		refusedAs(stolen, strings.Join(parts, "."), "none with this id and secret")
		j.ok("DELETE", mastercfg.NodesPath+"/h1", "")
		kept := 0
		for key := range storetest.Dump(t, j.db) {
			if strings.HasPrefix(key, mastercfg.TakenKeyPrefix) {
				kept++
			}
		}
		if kept != 2*(i+1) {
			t.Errorf("%d keys are kept", kept)
		}
	}
}

func TestACertificateIsRenewedForAQuarterAfterItsEnd(t *testing.T) {
	j := startJoin(t)
	m := newMachine(t, "h1")
	if _, refused := j.join(m, j.token(`{"role":"node"}`).Token); refused != "" {
		t.Fatal(refused)
	}
	const renewable = 90 * 24 * time.Hour
	for _, pause := range []time.Duration{pki.LeafLife / 2, 30 * 24 * time.Hour, pki.LeafLife + renewable} {
		j.pass(pause)
		answer, refused := j.renew(m)
		if refused != "" {
			t.Fatalf("after %s: %s", pause, refused)
		}
		j.belongs(answer, identity.Node, m)
	}
	j.pass(pki.LeafLife + renewable + time.Second)
	if _, refused := j.renew(m); !strings.Contains(refused, "more than 90 days ago") {
		t.Errorf("after that: %q", refused)
	}
}

// Packets reach only one of two nodes with one tunnel end: the second one does not join.
func TestANodeHasATunnelEndOfItsOwn(t *testing.T) {
	j := startJoin(t)
	token := j.token(`{"role":"node"}`).Token
	join := func(m machine, vteps ...string) string {
		t.Helper()
		_, refused := tryPlug[mastercfg.JoinResponse](j.bench, mastercfg.JoinPath, mastercfg.JoinRequest{Token: token, Host: m.name, CSR: m.csr, VTEPs: vteps})
		return refused
	}
	h1, h2 := newMachine(t, "h1"), newMachine(t, "h2")
	for range 2 { // again, like a node that did not receive the answer
		if refused := join(h1, "192.0.2.1", "2001:db8::1"); refused != "" {
			t.Fatal(refused)
		}
	}
	for _, same := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8:0::1"} {
		if refused := join(h2, "192.0.2.2", same); !strings.Contains(refused, "node h2: its tunnel end") || !strings.Contains(refused, "netctl node rm h1") {
			t.Errorf("%s: %q", same, refused)
		}
	}
	if refused := join(h2, "192.0.2.2"); refused != "" {
		t.Errorf("with one of its own: %s", refused)
	}
	j.ok("DELETE", mastercfg.NodesPath+"/h1", "")
	if refused := join(newMachine(t, "h3"), "192.0.2.1"); refused != "" {
		t.Errorf("with the one of a node that is gone: %s", refused)
	}
}

// The leases of a node are known by its name: the second one of two names with the same leases does not join.
func TestANodeHasLeasesOfItsOwn(t *testing.T) {
	j := startJoin(t)
	token := j.token(`{"role":"node"}`).Token
	h1, h2 := newMachine(t, "n79382"), newMachine(t, "n113427") // found by trying
	for range 2 {
		if _, refused := j.join(h1, token); refused != "" {
			t.Fatal(refused)
		}
	}
	if _, refused := j.join(h2, token); !strings.Contains(refused, "node n113427: the leases of that name are those of node n79382") {
		t.Errorf("%q", refused)
	}
	j.ok("DELETE", mastercfg.NodesPath+"/n79382", "")
	if _, refused := j.join(h2, token); refused != "" {
		t.Errorf("when the other one is gone: %s", refused)
	}
}

// Names of netmasters and of nodes are separate.
func TestANetmasterJoinsWithATokenOfItsOwn(t *testing.T) {
	j := startJoin(t)
	m := newMachine(t, "h1")
	answer, refused := j.join(m, j.token(`{"role":"master"}`).Token)
	if refused != "" {
		t.Fatal(refused)
	}
	j.belongs(answer, identity.Master, m)
	if given, err := pki.Decode(answer.Files); err != nil || given.Cluster() != j.by.Cluster() {
		t.Errorf("authorities: %v", err)
	}
	if answer, refused = j.join(m, j.token(`{"role":"node"}`).Token); refused != "" {
		t.Fatal(refused)
	}
	j.belongs(answer, identity.Node, m)
	if answer.Files != nil {
		t.Error("a node is given the authorities")
	}
	if got := j.ok("GET", mastercfg.MastersPath, ""); !strings.Contains(got, `"host":"h1"`) {
		t.Errorf("netmasters: %s", got)
	}
}

func TestOnlyAsManyJoinAsATokenAllows(t *testing.T) {
	j := startJoin(t)
	shown := j.token(`{"role":"node","uses":3}`)
	var joined atomic.Int32
	var joining sync.WaitGroup
	for i := range 12 {
		m := newMachine(t, fmt.Sprintf("h%d", i))
		joining.Go(func() {
			if _, refused := j.join(m, shown.Token); refused == "" {
				joined.Add(1)
			}
		})
	}
	joining.Wait()
	if joined.Load() != 3 {
		t.Errorf("%d joined", joined.Load())
	}
}

// Of two machines that request one name at the same moment one gets it. The other one's refusal says that the name
// is taken, and is audited.
func TestOfTwoWhoJoinUnderANameAtOnceOneGetsIt(t *testing.T) {
	log := newAudited(t)
	j := startJoin(t, log.of)
	shown := j.token(`{"role":"node"}`)
	j.mode(mastercfg.SecurityEnforced)
	log.news()
	const rounds = 20
	for round := range rounds {
		host := fmt.Sprintf("h%d", round)
		machines := [2]machine{newMachine(t, host), newMachine(t, host)}
		var codes [2]int
		var texts [2]string
		begin := make(chan struct{})
		var joining sync.WaitGroup
		for i, m := range machines {
			body := string(must(json.Marshal(mastercfg.JoinRequest{Token: shown.Token, Host: host, CSR: m.csr, Addresses: []string{"10.0.0.1"}})))
			joining.Go(func() {
				<-begin
				codes[i], texts[i], _ = j.do("POST", mastercfg.JoinPath, body, "Accept", fault.ProblemType)
			})
		}
		close(begin)
		joining.Wait()
		winner := 0
		if codes[1] == http.StatusOK {
			winner = 1
		}
		loser := 1 - winner
		const taken = " has joined with another key"
		if codes[winner] != http.StatusOK || codes[loser] != http.StatusConflict || !strings.Contains(texts[loser], "node "+host+taken) {
			t.Fatalf("%s: %d %s, and %d %s", host, codes[0], texts[0], codes[1], texts[1])
		}
		key := func(of int) string { return must(pki.PublicKeyHash(&machines[of].key.PublicKey)) }
		if got := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+host).Key; got != key(winner) {
			t.Errorf("%s belongs to %s, and who has joined has %s", host, got, key(winner))
		}
		about := func(of int) string {
			return fmt.Sprintf("node/%s with key %s by join token %s", host, key(of), shown.Record.ID)
		}
		told := map[string]audit.Entry{}
		for _, e := range log.news() {
			told[e.About] = e
		}
		if e := told[about(winner)]; e.Decision != audit.Allowed || e.Status != http.StatusOK || e.Revision == "" {
			t.Errorf("%s, who has joined: %+v", host, e)
		}
		if e := told[about(loser)]; e.Decision != audit.Denied || e.Status != http.StatusConflict || e.Revision != "" || !strings.Contains(e.Reason, taken) || len(told) != 2 {
			t.Errorf("%s, who has not: %+v, of %d lines", host, e, len(told))
		}
	}
	if got := record[mastercfg.JoinToken](j.bench, mastercfg.JoinTokenPrefix+shown.Record.ID).Used; got != rounds {
		t.Errorf("used %d times", got)
	}
}

// A refused join leaves no trace but a line in the audit log; the error names the object and the reason, and no
// secret.
func TestJoinsThatAreRefused(t *testing.T) {
	log := newAudited(t)
	j := startJoin(t, log.of)
	shown := j.token(`{"role":"node","host":"h*","ttl":"1h"}`)
	removed := j.token(`{"role":"node"}`)
	j.ok("DELETE", mastercfg.JoinTokensPath+"/"+removed.Record.ID, "")
	parts := strings.Split(shown.Token, ".")
	other := strings.Split(removed.Token, ".")
	m := newMachine(t, "h1")
	csr := string(must(json.Marshal(m.csr)))
	body := func(token, host, csr string) string {
		return fmt.Sprintf(`{"token":%q,"host":%q,"csr":%s,"addresses":["10.0.0.1"]}`, token, host, csr)
	}
	for name, c := range map[string]struct {
		body string
		code int
		says string
	}{
		"no body":             {"", 400, "not JSON"},
		"no token":            {body("", "h1", csr), 400, "as netctl token create printed it"},
		"a token cut off":     {body(shown.Token[:30], "h1", csr), 400, "join token"},
		"another secret":      {body(strings.Join([]string{parts[0], parts[1], other[2], parts[3]}, "."), "h1", csr), 403, "there is none"},
		"another id":          {body(strings.Join([]string{parts[0], other[1], parts[2], parts[3]}, "."), "h1", csr), 403, "there is none"},
		"a removed token":     {body(removed.Token, "h1", csr), 403, "there is none"},
		"another host":        {body(shown.Token, "w1", csr), 403, `hosts named`},
		"a name with a slash": {body(shown.Token, "h1/x", csr), 400, "want letters"},
		"a name of dots":      {body(shown.Token, "..", csr), 400, "want letters"},
		"no name":             {body(shown.Token, "", csr), 400, "want letters"},
		"no request":          {body(shown.Token, "h1", `""`), 400, "csr"},
		"a damaged request":   {body(shown.Token, "h1", `"AAAA"`), 400, "certificate request"},
		"a long request":      {body(shown.Token, "h1", `"`+strings.Repeat("A", 8<<10)+`"`), 400, "csr"},
		"1 MiB":               {body(shown.Token, strings.Repeat("h", 1<<20), csr), 413, "too large"},
		"no address":          {strings.Replace(body(shown.Token, "h1", csr), "10.0.0.1", "10.0.0.1/24", 1), 400, "is not an IP address"},
	} {
		before := storetest.Dump(t, j.db)
		log.news()
		code, text, _ := j.do("POST", mastercfg.JoinPath, c.body, "Accept", fault.ProblemType)
		if code != c.code || !strings.Contains(text, c.says) || strings.Contains(text, parts[2]) {
			t.Errorf("%s: %d %.300s", name, code, text)
		}
		if after := storetest.Dump(t, j.db); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: left a trace", name)
		}
		want := audit.Entry{Verb: "POST", Key: mastercfg.JoinPath, Decision: audit.Allowed, Status: c.code}
		if c.code == http.StatusForbidden {
			want.Decision, want.Reason = audit.Denied, c.says
		}
		if name == "another host" { // whose secret is right
			want.About = fmt.Sprintf("node/w1 with key %s by join token %s", must(pki.PublicKeyHash(&m.key.PublicKey)), shown.Record.ID)
		}
		log.says(name, want)
	}
	j.pass(time.Hour)
	if _, refused := j.join(newMachine(t, "h1"), shown.Token); !strings.Contains(refused, "expired at") {
		t.Errorf("expired: %q", refused)
	}
	if code, text, _ := j.do("POST", mastercfg.JoinPath+"?token="+shown.Token, "{}", "Accept", fault.ProblemType); code != 400 || strings.Contains(text, parts[2]) {
		t.Errorf("a token in the URL: %d %s", code, text)
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	j := startJoin(t)
	for _, body := range []string{`{}`, `{"role":"user"}`, `{"role":"node","ttl":"soon"}`, `{"role":"node","ttl":"1s"}`, `{"role":"node","uses":-1}`,
		`{"role":"node","host":"a/b"}`, `{"role":"node","tenants":["a:b"]}`, `[]`} {
		if code, text, _ := j.do("POST", mastercfg.JoinTokensPath, body, "Accept", fault.ProblemType); code != 400 {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	if got := j.ok("GET", mastercfg.JoinTokensPath, ""); got != "[]" {
		t.Errorf("tokens: %s", got)
	}
}

func TestWithoutAuthoritiesNobodyJoins(t *testing.T) {
	b := secured(t, mastercfg.SecurityPermissive)
	for path, body := range map[string]string{mastercfg.JoinTokensPath: `{"role":"node"}`, mastercfg.RenewPath: `{"host":"h1","csr":"AAAA"}`} {
		if code, text, _ := b.do("POST", path, body, "Accept", fault.ProblemType, provenHeader, "root"); code != http.StatusConflict || !strings.Contains(text, "no authorities") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An unreadable record affects only its own node.
func TestOneDamagedRecordStopsNobodyElse(t *testing.T) {
	j := startJoin(t)
	token := j.token(`{"role":"node"}`).Token
	if _, refused := j.join(newMachine(t, "h1"), token); refused != "" {
		t.Fatal(refused)
	}
	if _, err := j.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		tx.Put(mastercfg.NodePrefix+"h0", []byte("{"))
		tx.Put(mastercfg.JoinTokenPrefix+"0", []byte("{"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, refused := j.join(newMachine(t, "h2"), token); refused != "" {
		t.Errorf("another node: %s", refused)
	}
	j.ok("GET", "/api/v1/status", "")
	if got := j.ok("GET", mastercfg.NodesPath, ""); !strings.Contains(got, `"h1"`) || !strings.Contains(got, `"h2"`) {
		t.Errorf("nodes: %s", got)
	}
	if got := j.ok("GET", mastercfg.JoinTokensPath, ""); !strings.Contains(got, `"used":2`) {
		t.Errorf("tokens: %s", got)
	}
}
