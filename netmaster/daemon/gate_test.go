package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// A node reaches the state through the leader and through a follower, on the port of REST, which clients
// that speak HTTP/2, too, go on to be served at.
func TestAgentsReachTheStateThroughEveryNetmaster(t *testing.T) {
	store := storetest.Open(t)
	dir := filepath.Join(t.TempDir(), "pki")
	var masters []*node
	for _, name := range []string{"m1", "m2"} {
		n := run(t, func(c *Config) { c.Security = Security{Dir: dir, Founding: mastercfg.SecurityPermissive, Name: name} })
		masters = append(masters, n)
		leader(t, masters...)
	}
	all, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := all[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Node, Name: "h1"}, Use: x509.ExtKeyUsageClientAuth, Key: key.Public()}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(mastercfg.Joined{Host: "h1", Key: pki.KeyHash(cert)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: mastercfg.NodePrefix + "h1", Value: record}}}); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(all[pki.API].Certificate)
	own := tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	for _, n := range masters {
		db, err := objdb.Open(objdb.Config{Endpoints: []string{"https://" + n.addr}, Log: testkit.Quiet(), TLS: func() (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{own}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		testkit.Eventually(t, 20*time.Second, "the configuration is read", func() bool {
			_, err := db.Get(t.Context(), mastercfg.GlobalConfigKey)
			return err == nil
		})
		if _, err := db.Get(t.Context(), mastercfg.NodePrefix+"h1"); err == nil {
			t.Error("a secret record is read")
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get("https://" + n.addr + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 {
			t.Errorf("REST for a client of HTTP/2: %s %s", resp.Proto, resp.Status)
		}
	}
}
