package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// A node reaches the state through the leader and through a follower, on the port of REST, where HTTP/2 clients of
// REST are still served.
func TestAgentsReachTheStateThroughEveryNetmaster(t *testing.T) {
	agentsReachTheState(t, time.Minute)
}

// A removed node receives nothing more after a second, if the machine has free processors.
func TestLongARemovedNodeHearsNothingMoreWithinASecond(t *testing.T) {
	testkit.TakesLong(t)
	agentsReachTheState(t, time.Second)
}

// agentsReachTheState ends with the removal of the node, whose watches have to end within a time.
func agentsReachTheState(t *testing.T, within time.Duration) {
	storetest.Open(t)
	dir := t.TempDir()
	var masters []*node
	for _, name := range []string{"m1", "m2"} {
		n := run(t, func(c *Config) {
			c.Security = Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityPermissive, Name: name, Socket: filepath.Join(dir, name+".sock")}
		})
		masters = append(masters, n)
		leader(t, masters...)
	}
	root := overSocket(t, filepath.Join(dir, "m1.sock"))
	own, pool := joined(t, masters[0], root, "h1")
	var watches []clientv3.WatchChan
	for _, n := range masters {
		db, err := objdb.Open(objdb.Config{Endpoints: []string{"https://" + n.addr}, Log: testkit.Quiet(), TLS: func() (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{own}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		testkit.Eventually(t, time.Minute, "the configuration is read", func() bool {
			_, err := db.Get(t.Context(), mastercfg.GlobalConfigKey)
			return err == nil
		})
		if _, err := db.Get(t.Context(), mastercfg.NodePrefix+"h1"); err == nil {
			t.Error("a secret record is read")
		}
		client, err := db.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, client.Watch(t.Context(), mastercfg.GlobalRoot, clientv3.WithPrefix(), clientv3.WithCreatedNotify()))
		if begun := <-watches[len(watches)-1]; !begun.Created {
			t.Fatal(begun.Err())
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("https://" + n.addr + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 {
			t.Errorf("REST for a client of HTTP/2: %s %s", resp.Proto, resp.Status)
		}
	}
	// A removed node receives nothing more from any of them.
	if code, answer := exchange(t, root, "DELETE", "http://localhost"+mastercfg.NodesPath+"/h1", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	removed := time.Now()
	for i, watch := range watches {
		select {
		case end, going := <-watch:
			took := time.Since(removed)
			if t.Logf("the watch at %s ended after %s: %v", masters[i].addr, took, end.Err()); going && end.Err() == nil {
				t.Errorf("%v", end)
			}
			if took > within {
				t.Errorf("the watch at %s ended after %s, want %s", masters[i].addr, took, within)
			}
		case <-time.After(time.Minute):
			t.Errorf("the watch at %s goes on", masters[i].addr)
		}
	}
}

// joined makes a node a member of a netmaster's cluster, by root of its machine. It returns the node's certificate
// and its trusted CAs.
func joined(t *testing.T, n *node, root *http.Client, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	code, answer := exchange(t, root, "POST", "http://localhost"+mastercfg.JoinTokensPath, `{"role":"node"}`)
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(answer), &shown); err != nil || code != http.StatusOK {
		t.Fatalf("token: %d %s, %v", code, answer, err)
	}
	token, err := jointoken.Parse(shown.Token)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	given, err := joining.Join(t.Context(), []string{n.addr}, token, mastercfg.JoinRequest{Host: host, CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates([]byte(given.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(given.Authorities))
	return tls.Certificate{Certificate: [][]byte{certs[0].Raw}, PrivateKey: key}, pool
}
