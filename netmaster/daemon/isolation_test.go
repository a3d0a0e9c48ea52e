package daemon

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// Users of tenants with equal object names work while their rights change, and leaders are killed. Afterwards the
// revisions of the store show what each of them was entitled to, and when.

func TestNobodySeesOrWritesWhatIsNoMoreHis(t *testing.T) {
	isolated(t, 4, 10, 600, 1, 5*time.Second) // on a machine that is busy with other tests
}

func TestLongNobodySeesOrWritesWhatIsNoMoreHis(t *testing.T) {
	testkit.TakesLong(t)
	isolated(t, 8, 64, 10_000, 3, time.Second)
}

// tenancy is a cluster with tenants and users.
type tenancy struct {
	*testing.T
	store   *clientv3.Client
	dir     string
	all     pki.Authorities
	tenants []string
	users   []string
	stop    chan struct{} // closed when all has been done
	done    atomic.Int64  // answered operations
	refused atomic.Int64

	unanswered atomic.Int64 // operations, as a leader had gone

	heard atomic.Int64 // lines of watches

	started int
	mu      sync.Mutex
	masters []*mortal
	seen    []sight
	ends    []ending
	removed map[string][]removal // by user
}

// sight is an answer, or a line of a watch, or a write: possible only with a right in a tenant at some revision.
type sight struct {
	user, tenant, what string
	from, to           int64
	role               string // that is wanted; empty: any
}

// administers is the role that writes need.
const administers = " tenant-admin"

// ending is a watch of a user, which was quick to end or was not.
type ending struct {
	user, at   string // at which netmaster
	began, end time.Time
}

// removal is that of a role. A watch that began meanwhile may have begun without the role, and need not end.
type removal struct{ asked, done time.Time }

func isolated(t *testing.T, tenants, users, operations, leaders int, within time.Duration) {
	db := storetest.Open(t)
	store, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &tenancy{T: t, store: store, dir: t.TempDir(), stop: make(chan struct{}), removed: map[string][]removal{}}
	for range 2 {
		c.start()
	}
	if c.all, err = pki.Load(filepath.Join(c.dir, "pki")); err != nil {
		t.Fatal(err)
	}
	root := c.rooted()
	for i := range tenants {
		name := fmt.Sprintf("tenant%d", i)
		c.tenants = append(c.tenants, name)
		c.must(root, "POST", "/api/v1/tenants/"+name+"/", `{"tenantName":"`+name+`"}`, 200)
		c.must(root, "POST", "/api/v1/networks/"+name+":net/", `{"tenantName":"`+name+`","networkName":"net","encap":"vxlan","subnet":"10.1.0.0/16"}`, 200)
	}
	for i := range users {
		name := fmt.Sprintf("user%d", i)
		c.users = append(c.users, name)
		c.must(root, "POST", logins.AuthPath+"/local_users/", `{"username":"`+name+`","password":"correct horse battery"}`, 201)
	}
	from := c.revision()
	var working, around sync.WaitGroup
	around.Go(c.rebind)
	for i, user := range c.users {
		client := c.client(user)
		around.Go(func() { c.watch(client, user) })
		working.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			late := time.Now().Add(time.Minute)
			for (c.done.Load() < int64(operations) || !c.enough() && time.Now().Before(late)) && !t.Failed() {
				if c.operate(client, user, random) {
					c.done.Add(1)
					continue
				}
				c.unanswered.Add(1)
				<-time.After(rebindEvery)
			}
		})
	}
	for i := range leaders {
		testkit.Eventually(t, 10*time.Minute, "operations", func() bool { return c.done.Load() > int64((i+1)*operations/(leaders+1)) })
		c.killLeader()
	}
	working.Wait()
	close(c.stop)
	around.Wait()
	c.judge(from, within)
}

// leaderTTL is the netmasters' lease: the successor of a killed leader waits for its expiry.
const leaderTTL = 10 * time.Second

// start starts a netmaster; the first one founds the cluster. It returns when one leads.
func (c *tenancy) start() {
	c.Helper()
	c.started++
	m := bear(c.T, order{Name: fmt.Sprintf("m%d", c.started), Dir: c.dir, TTL: leaderTTL})
	c.mu.Lock()
	c.masters = append(c.masters, m)
	c.mu.Unlock()
	testkit.Eventually(c.T, time.Minute, "a leader", func() bool { return c.leader() >= 0 })
}

// leader returns which of the netmasters leads; -1: none does.
func (c *tenancy) leader() int {
	c.mu.Lock()
	all := slices.Clone(c.masters)
	c.mu.Unlock()
	return slices.IndexFunc(all, (*mortal).leads)
}

// killLeader kills the leader during all kinds of requests, and starts another netmaster.
func (c *tenancy) killLeader() {
	c.Helper()
	var old *mortal
	testkit.Eventually(c.T, time.Minute, "a leader", func() bool {
		i := c.leader()
		if i < 0 {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		old, c.masters = c.masters[i], slices.Delete(slices.Clone(c.masters), i, i+1)
		return true
	})
	killed := time.Now()
	old.kill()
	candidates, err := c.store.Get(c.Context(), objdb.LockKey(mastercfg.LeaderLock)+"/", clientv3.WithPrefix())
	if err != nil {
		c.Error(err)
	} else if !slices.ContainsFunc(candidates.Kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Value) == old.Addr }) {
		c.Error("the leader has given back its lease before it was killed")
	}
	c.start()
	c.Logf("%s, the leader at %s, was killed at %s, and %s later another one led", old.Name, old.Addr, killed.Format(time.StampMilli), time.Since(killed).Round(time.Millisecond))
}

// base returns the URL of some netmaster.
func (c *tenancy) base() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "https://" + c.masters[rand.IntN(len(c.masters))].Addr
}

// client returns a client with the certificate of a user.
func (c *tenancy) client(user string) *http.Client {
	c.Helper()
	key, err := pki.NewKey()
	if err != nil {
		c.Fatal(err)
	}
	request, err := pki.Request(key)
	if err != nil {
		c.Fatal(err)
	}
	text, err := json.Marshal(map[string][]byte{"csr": request})
	if err != nil {
		c.Fatal(err)
	}
	var made struct{ Certificate string }
	answer := c.must(c.rooted(), "POST", logins.AuthPath+"/local_users/"+user+"/certificates/", string(text), 201)
	if err := json.Unmarshal([]byte(answer), &made); err != nil {
		c.Fatal(err)
	}
	block, _ := pem.Decode([]byte(made.Certificate))
	client := clientOf(c.T, []*x509.Certificate{c.all[pki.API].Certificate}, tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
	client.Timeout = 0
	return client
}

// rooted returns a client of root on the machine of some netmaster that does not lead.
func (c *tenancy) rooted() *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return overSocket(c.T, c.masters[len(c.masters)-1].socket())
}

// ask sends a request.
func (c *tenancy) ask(client *http.Client, base, method, path, body string) (int, http.Header, string, error) {
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Accept", "application/problem+json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(answer), err
}

func (c *tenancy) must(client *http.Client, method, path, body string, code int) string {
	c.Helper()
	got, _, answer, err := c.ask(client, "http://localhost", method, path, body)
	if err != nil || got != code {
		c.Fatalf("%s %s: %d %s %v", method, path, got, answer, err)
	}
	return answer
}

// revision returns the store's present revision.
func (c *tenancy) revision() int64 {
	answer, err := c.store.Get(c.Context(), mastercfg.Root, clientv3.WithCountOnly())
	if err != nil {
		c.Error(err)
		return 0
	}
	return answer.Header.Revision
}

// published returns a revision that the leader already knows: its own last write may be in the store before the
// leader knows it, and has reported it.
func (c *tenancy) published() int64 { return c.revision() - 1 }

func (c *tenancy) note(s sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, s)
}

// enough reports whether the history is long enough: on a fast machine all operations may be over before many
// roles were granted.
func (c *tenancy) enough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen) >= 50 && c.refused.Load() >= 50
}

// operate does one operation as a user, in any tenant, and reports whether it was answered.
func (c *tenancy) operate(client *http.Client, user string, random *rand.Rand) bool {
	tenant := c.tenants[random.IntN(len(c.tenants))]
	group := fmt.Sprintf("/api/v1/endpointGroups/%s:g%d/", tenant, random.IntN(3))
	method, path, body := "GET", "", ""
	switch random.IntN(8) {
	case 0:
		path, tenant = "/api/v1/networks/", ""
	case 1:
		path, tenant = "/api/v1/endpointGroups/", ""
	case 2:
		path, tenant = "/api/v1/tenants/", ""
	case 3:
		path = "/api/v1/networks/" + tenant + ":net/"
	case 4:
		path = "/api/v1/inspect/networks/" + tenant + ":net/"
	case 5:
		path = "/api/v1/networks/?tenant=" + tenant
	case 6:
		method, path = "POST", group
		body = fmt.Sprintf(`{"tenantName":%q,"networkName":"net","groupName":%q}`, tenant, strings.TrimSuffix(group[strings.IndexByte(group, ':')+1:], "/"))
	default:
		method, path = "DELETE", group
	}
	from := c.published()
	code, header, answer, err := c.ask(client, c.base(), method, path, body)
	switch {
	case err != nil, code == http.StatusServiceUnavailable, code == http.StatusBadGateway: // a leader has gone
		return false
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		c.refused.Add(1)
		return true
	case code != http.StatusOK: // existence is revealed only to users that may see it
		if code != http.StatusNotFound && code != http.StatusConflict && code != http.StatusPreconditionFailed && code != http.StatusUnprocessableEntity {
			c.Errorf("%s %s by %s: %d %s", method, path, user, code, answer)
			return true
		}
	}
	to, role := c.revision(), ""
	what := method + " " + path
	if method != "GET" {
		role = administers
	}
	if rev, _ := strconv.ParseInt(header.Get(mastercfg.RevisionHeader), 10, 64); method != "GET" && rev > 0 {
		from, to = rev-1, rev // others that are committed with it have its revision
	}
	if tenant != "" {
		c.note(sight{user, tenant, what, from, to, role})
	}
	for _, other := range c.tenants {
		if other != tenant && strings.Contains(answer, other) {
			c.note(sight{user, other, what, from, to, ""})
		}
	}
	return true
}

// watch watches groups, again and again, until the operations are over.
func (c *tenancy) watch(client *http.Client, user string) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		c.watchOnce(client, user)
	}
}

func (c *tenancy) watchOnce(client *http.Client, user string) {
	from, at := c.published(), c.base()
	req, err := http.NewRequestWithContext(c.Context(), "GET", at+"/api/v1/endpointGroups/?watch=true", nil)
	if err != nil {
		c.Error(err)
		return
	}
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
	}
	if err != nil || resp.StatusCode != http.StatusOK { // a leader has gone
		select {
		case <-time.After(rebindEvery):
		case <-c.stop:
		}
		return
	}
	defer resp.Body.Close()
	began := time.Now() // it may have waited for a leader before
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-c.stop:
			_ = resp.Body.Close()
		case <-over:
		}
	}()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var line struct{ Revision int64 }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		c.heard.Add(1)
		for _, tenant := range c.tenants {
			if strings.Contains(lines.Text(), tenant) {
				c.note(sight{user, tenant, "a watch: " + lines.Text(), max(from, line.Revision), c.revision(), ""})
			}
		}
	}
	c.mu.Lock() // also of one that we have ended ourselves
	defer c.mu.Unlock()
	c.ends = append(c.ends, ending{user, at, began, time.Now()})
}

// rebindEvery is the time between two changes of roles.
const rebindEvery = 100 * time.Millisecond

// rebind grants and revokes roles until all is done.
func (c *tenancy) rebind() {
	random := rand.New(rand.NewPCG(2, 2))
	given := map[string]string{} // user and tenant -> id of the binding
	tick := time.NewTicker(rebindEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.stop:
			return
		}
		user, tenant := c.users[random.IntN(len(c.users))], c.tenants[random.IntN(len(c.tenants))]
		role := []string{"viewer", "ops"}[random.IntN(2)]
		const path = logins.AuthPath + "/authorizations/"
		if id, has := given[user+" "+tenant]; has {
			asked := time.Now()
			code, _, _, err := c.ask(c.rooted(), "http://localhost", "DELETE", path+id+"/", "")
			if err == nil && (code == http.StatusNoContent || code == http.StatusOK || code == http.StatusNotFound) {
				delete(given, user+" "+tenant)
				c.mu.Lock()
				c.removed[user] = append(c.removed[user], removal{asked, time.Now()})
				c.mu.Unlock()
			}
			continue
		}
		code, _, answer, err := c.ask(c.rooted(), "http://localhost", "POST", path, fmt.Sprintf(`{"principalName":%q,"local":true,"role":%q,"tenantName":%q}`, user, role, tenant))
		var bound struct{ AuthzUUID string }
		if err == nil && code == http.StatusCreated && json.Unmarshal([]byte(answer), &bound) == nil {
			given[user+" "+tenant] = bound.AuthzUUID
		}
	}
}
