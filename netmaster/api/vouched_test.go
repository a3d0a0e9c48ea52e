package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// vouchesFor accepts tokens of a kind and a name joined by a hyphen, such as node-h1.
func vouchesFor(_ context.Context, token string) (identity.Identity, error) {
	kind, name, _ := strings.Cut(token, "-")
	if kind != "node" && kind != "master" {
		return identity.Identity{}, fault.New(fault.Denied, "join token: nobody knows it")
	}
	return identity.Identity{Kind: identity.Kind(kind), Name: name}, nil
}

func startVouched(t *testing.T, change ...func(*Config)) *joinBench {
	return startJoin(t, append(change, func(c *Config) { c.Vouch = vouchesFor })...)
}

func TestWhoIsVouchedForJoinsAsHimselfOnly(t *testing.T) {
	j := startVouched(t)
	m := newMachine(t, "h1")
	answer, refused := j.join(m, "node-h1")
	if refused != "" {
		t.Fatal(refused)
	}
	j.belongs(answer, identity.Node, m)
	if len(answer.Files) > 0 {
		t.Error("a node is given the keys of the authorities")
	}
	if _, refused := j.join(newMachine(t, "h2"), "node-h1"); !strings.Contains(refused, "node h1") {
		t.Errorf("as another node: %q", refused)
	}
	if _, refused := j.join(newMachine(t, "h2"), "user-h2"); !strings.Contains(refused, "nobody knows it") {
		t.Errorf("with a token of nobody: %q", refused)
	}
	if _, known := storetest.Dump(t, j.db)[mastercfg.NodePrefix+"h2"]; known {
		t.Error("h2 has joined")
	}
	// A token of netctl token create is none of those.
	if _, refused := j.join(newMachine(t, "h3"), j.token(`{"role":"node"}`).Token); refused != "" {
		t.Error(refused)
	}
}

func TestANetmasterThatIsVouchedForIsGivenTheAuthorities(t *testing.T) {
	j := startVouched(t)
	m := newMachine(t, "h1")
	answer, refused := j.join(machine{"localhost", m.key, m.csr}, "master-h1")
	if refused != "" {
		t.Fatal(refused)
	}
	j.belongs(answer, identity.Master, m)
	if len(answer.Files) == 0 {
		t.Error("there are no authorities in the answer")
	}
}

// A removed netmaster cannot join again with its old data, even with a valid token; after a new setup it can.
func TestANetmasterThatWasRemovedIsVouchedForInVain(t *testing.T) {
	j := startVouched(t)
	m := newMachine(t, "localhost")
	token := j.token(`{"role":"master","uses":9}`).Token
	if _, refused := j.join(m, "master-m2"); refused != "" {
		t.Fatal(refused)
	}
	j.ok("DELETE", mastercfg.MastersPath+"/m2", "")
	if _, refused := j.join(m, "master-m2"); !strings.Contains(refused, "was removed") || !strings.Contains(refused, "empty --pki-dir") {
		t.Errorf("%q", refused)
	}
	if _, refused := j.join(machine{"m2", m.key, m.csr}, token); !strings.Contains(refused, "was removed") {
		t.Errorf("with a token: %q", refused)
	}
	if _, refused := j.join(newMachine(t, "localhost"), "master-m2"); refused != "" {
		t.Error(refused)
	}
	if _, known := storetest.Dump(t, j.db)[mastercfg.RemovedMasterPrefix+"m2"]; known {
		t.Error("it still counts as removed")
	}
}

// A machine set up again has another key, and the same rights as before.
func TestAMachineThatWasSetUpAnewComesBackByItself(t *testing.T) {
	j := startVouched(t)
	if _, refused := j.join(newMachine(t, "h1"), j.token(`{"role":"node","tenants":["blue"]}`).Token); refused != "" {
		t.Fatal(refused)
	}
	before := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1")
	m := newMachine(t, "h1")
	if _, refused := j.join(m, "node-h1"); refused != "" {
		t.Fatal(refused)
	}
	after := record[mastercfg.Joined](j.bench, mastercfg.NodePrefix+"h1")
	if after.Key == before.Key || len(after.Tenants) != 1 || after.Tenants[0] != "blue" {
		t.Errorf("%+v became %+v", before, after)
	}
	if _, refused := j.renew(m); refused != "" {
		t.Error(refused)
	}
	// Also one that was removed: from then on it may be away for as long as any other.
	const gone = mastercfg.NodeGCPrefix + "h1"
	j.ok("DELETE", mastercfg.NodesPath+"/h1", "")
	if _, counted := storetest.Dump(t, j.db)[gone]; !counted {
		t.Error("its endpoints are not freed")
	}
	if _, refused := j.join(newMachine(t, "h1"), "node-h1"); refused != "" {
		t.Fatal(refused)
	}
	if record, counted := storetest.Dump(t, j.db)[gone]; counted {
		t.Errorf("it has no time: %s", record)
	}
}

// Without a configured verifier, such a token is invalid.
func TestNobodyVouchesUnlessTold(t *testing.T) {
	j := startJoin(t)
	if _, refused := j.join(newMachine(t, "h1"), "node-h1"); !strings.Contains(refused, "netctl token create") {
		t.Errorf("%q", refused)
	}
}

// The verifier gets few requests at a time, with a timeout: clients with invalid tokens, however many, block few
// connections and get an answer, and a valid one joins after them.
func TestStrangersDoNotWaitForWhoVouchesWithoutEnd(t *testing.T) {
	const strangers, asked, most, each = 200, 16, 64, 5 * time.Second
	var at, peak atomic.Int64
	j := startJoin(t, func(c *Config) {
		c.Vouch = func(ctx context.Context, token string) (identity.Identity, error) {
			if token != "nonsense" {
				return vouchesFor(ctx, token)
			}
			if now := at.Add(1); now > peak.Load() {
				peak.Store(now)
			}
			defer at.Add(-1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				t.Error("it is waited for without end")
			}
			return identity.Identity{}, fault.New(fault.Unavailable, "join token: %w", context.Cause(ctx))
		}
	})
	m := newMachine(t, "h1")
	request, err := json.Marshal(mastercfg.JoinRequest{Token: "nonsense", Host: m.name, CSR: m.csr})
	if err != nil {
		t.Fatal(err)
	}
	var atOnce, later atomic.Int64
	var asking sync.WaitGroup
	began := time.Now()
	for range strangers {
		asking.Go(func() {
			code, answer, headers := j.do("POST", mastercfg.JoinPath, string(request), "Accept", fault.ProblemType)
			if code != http.StatusServiceUnavailable || headers.Get("Retry-After") == "" {
				t.Errorf("%d %s %v", code, answer, headers)
			}
			if strings.Contains(answer, "too many nodes and netmasters that join") { // who has waited hears something else
				atOnce.Add(1)
			} else {
				later.Add(1)
			}
		})
	}
	asking.Wait()
	// Each waits for its whole time. So there can be more of them only if some arrived after others had timed out.
	waits := most * max(1, int64(time.Since(began)/each))
	if peak.Load() > asked || later.Load() > waits || atOnce.Load() < strangers-waits {
		t.Errorf("asked about %d at a time, %d had to wait, %d were refused at once", peak.Load(), later.Load(), atOnce.Load())
	}
	if _, refused := j.join(m, "node-h1"); refused != "" {
		t.Error(refused)
	}
}
