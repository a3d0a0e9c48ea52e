package gate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(crowdRuns) == "" {
		os.Exit(storetest.Main(m))
	}
	if err := runCrowd(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bed is a store with the CAs of a cluster.
type bed struct {
	testing.TB
	db   *objdb.DB // without a gate
	all  pki.Authorities
	made func(*Gate) // called with each gate before it runs; may be nil
}

func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{TB: t, db: storetest.Open(t)}
	var err error
	if b.all, err = pki.NewCluster(time.Now()); err != nil {
		t.Fatal(err)
	}
	b.put(mastercfg.GlobalConfigKey, mastercfg.GlobConfig{FwdMode: "bridge"})
	return b
}

func (b *bed) put(key string, record any) {
	b.Helper()
	value, err := json.Marshal(record)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := b.db.Txn(b.Context(), objdb.Txn{Puts: []objdb.KV{{Key: key, Value: value}}}); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) remove(key string) {
	b.Helper()
	if _, _, err := b.db.Txn(b.Context(), objdb.Txn{Deletes: []string{key}}); err != nil {
		b.Fatal(err)
	}
}

// network makes a network of a tenant, endpoint one of its endpoints on a host.
func (b *bed) network(tenant, name string) {
	b.Helper()
	id := mastercfg.NetworkID(tenant, name)
	b.put(mastercfg.NetworkPrefix+id, mastercfg.CfgNetworkState{ID: id, Tenant: tenant, PktTagType: "vxlan"})
}

func endpointKey(tenant, network, name string) string {
	return mastercfg.EndpointPrefix + mastercfg.EndpointID(mastercfg.NetworkID(tenant, network), name)
}

func (b *bed) endpoint(tenant, network, name, host string) {
	b.Helper()
	b.put(endpointKey(tenant, network, name), mastercfg.CfgEndpointState{NetID: mastercfg.NetworkID(tenant, network), EndpointID: name, HomingHost: host})
}

// running is a gate that runs.
type running struct {
	*Gate
	url  string
	stop func()
}

// open starts a gate, which ends with the test at the latest.
func (b *bed) open(change ...func(*Config)) *running {
	b.Helper()
	db, err := objdb.Open(objdb.Config{Endpoints: []string{storetest.Endpoint()}, RequestTimeout: time.Minute, Log: testkit.Quiet()})
	if err != nil {
		b.Fatal(err)
	}
	trust := pki.Trust{Cluster: b.all.Cluster(), Authorities: []*x509.Certificate{b.all[pki.Client].Certificate}, Use: x509.ExtKeyUsageClientAuth}
	cfg := Config{DB: db, Verify: trust.Verify, Log: testkit.Quiet()}
	for _, c := range change {
		c(&cfg)
	}
	g := New(cfg)
	if b.made != nil {
		b.made(g)
	}
	key, err := pki.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	cert, err := b.all[pki.API].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Master, Name: "m1"}, Use: x509.ExtKeyUsageServerAuth, Key: key.Public(),
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{NextProtos: []string{"h2"}, ClientAuth: tls.RequestClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { g.Run(ctx) })
	tasks.Go(func() { cfg.Audit.Run(ctx) })
	tasks.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() {
				if conn.(*tls.Conn).HandshakeContext(ctx) == nil {
					g.Take(conn)
				}
			})
		}
	})
	r := &running{Gate: g, url: "https://" + l.Addr().String()}
	r.stop = sync.OnceFunc(func() {
		cancel()
		_ = l.Close()
		tasks.Wait()
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(r.stop)
	return r
}

// node is a node that has joined.
type node struct {
	*objdb.DB
	host string
	own  tls.Certificate
	pool *x509.CertPool
}

// join makes a node that may serve tenants; none: all. Its addresses are 192.0.2.N.
func (b *bed) join(host string, addresses []string, tenants ...string) *node {
	b.Helper()
	n := &node{host: host, pool: x509.NewCertPool()}
	n.pool.AddCert(b.all[pki.API].Certificate)
	cert := b.certificate(identity.Node, host)
	n.own = cert
	b.put(mastercfg.NodePrefix+host, mastercfg.Joined{Host: host, Key: pki.KeyHash(cert.Leaf), Addresses: addresses, VTEPs: addresses, Tenants: tenants, Joined: time.Now()})
	return n
}

func (b *bed) certificate(kind identity.Kind, name string) tls.Certificate {
	b.Helper()
	key, err := pki.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	cert, err := b.all[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: kind, Name: name}, Use: x509.ExtKeyUsageClientAuth, Key: key.Public()}, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// through connects a node to the state by gates.
func (b *bed) through(n *node, gates ...*running) *node {
	b.Helper()
	var urls []string
	for _, g := range gates {
		urls = append(urls, g.url)
	}
	db, err := objdb.Open(objdb.Config{Endpoints: urls, RequestTimeout: time.Minute, Log: testkit.Quiet(), TLS: func() (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: n.pool, Certificates: []tls.Certificate{n.own}}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	n.DB = db
	return n
}

// follower is the content of a node's mirror.
type follower struct {
	*mirror.Mirror
	mu     sync.Mutex
	have   map[string]string
	events int
	batch  int
}

// follow mirrors a prefix until the test ends.
func (b *bed) follow(n *node, prefix string) *follower {
	f := &follower{have: map[string]string{}}
	f.Mirror = mirror.New(n.DB, prefix, func(batch mirror.Batch) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.batch++
		for _, e := range batch.Events {
			f.events++
			if e.Value == nil {
				delete(f.have, e.Key)
			} else {
				f.have[e.Key] = string(e.Value)
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

func (f *follower) value(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.have[key]
}

func (f *follower) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.have[key]
	return has
}

// audited returns the configuration for a log of refusals, and a function that reads it.
func audited(t testing.TB) (func(*Config), func() string) {
	path := filepath.Join(t.TempDir(), "audit")
	return func(c *Config) { c.Audit = audit.New(path, testkit.Quiet()) }, func() string {
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
}

// dial opens a connection without a client library, and sends the first bytes of HTTP/2.
func (n *node) dial(t testing.TB, g *running) net.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(g.url, "https://"), &tls.Config{RootCAs: n.pool, Certificates: []tls.Certificate{n.own}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
