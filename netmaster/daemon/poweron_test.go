package daemon

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/test/testkit"
)

const day = 24 * time.Hour

// A secured cluster that was switched off for thirty days, so that every certificate has expired, serves its nodes
// after it is switched on, without intervention.
func TestAClusterComesBackAfterThirtyDays(t *testing.T) { comesBack(t) }

// It takes a few seconds more than a new one, if the machine has free processors.
func TestLongAClusterComesBackAfterThirtyDaysWithinSeconds(t *testing.T) {
	testkit.TakesLong(t)
	if took, fresh := comesBack(t); took > fresh+10*time.Second {
		t.Error("that is more than ten seconds longer")
	}
}

// comesBack returns the time until a cluster serves that was switched off, and the time of a fresh one.
func comesBack(t *testing.T) (took, fresh time.Duration) {
	store := storetest.Open(t)
	began := time.Now()
	now := time.Now()
	authorities, err := pki.NewCluster(now.Add(-31 * day))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityEnforced, Name: "m1", Socket: filepath.Join(dir, "netmaster.sock")}
	if err := authorities.Save(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	master := run(t, func(c *Config) { c.Security = cfg })
	leader(t, master)
	exchange(t, overSocket(t, cfg.Socket), "POST", "http://localhost/api/v1/networks/default:web/", webNetwork)
	node := membership.Config{Dir: filepath.Join(dir, "node"), TokenFile: tokenFile(t, cfg.Socket, "node"), Host: "h1", Log: testkit.Quiet(),
		Masters: func(context.Context) ([]string, error) { return []string{master.addr}, nil }}
	serves := func() {
		t.Helper()
		member, err := membership.Open(node)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- member.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		testkit.Eventually(t, time.Minute, "the node is given an endpoint", func() bool {
			conf := member.TLS()
			if conf == nil || conf.Certificates[0].Leaf.NotAfter.Before(time.Now()) {
				return false
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}, Timeout: time.Minute}
			code, _ := exchange(t, client, "POST", "https://"+master.addr+mastercfg.CreateEndpointPath,
				`{"TenantName":"default","NetworkName":"web","ConfigEP":{"Host":"h1","Container":"c"}}`)
			return code == http.StatusOK
		})
	}
	serves()
	fresh = time.Since(began) // what this machine needs anyway
	master.shut()

	// The disks and the store are as if written thirty days ago.
	key, err := pki.OpenKey(filepath.Join(node.Dir, "node.key"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := authorities[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Node, Name: "h1"}, Use: x509.ExtKeyUsageClientAuth, Serves: true, Key: key.Public()}, now.Add(-30*day))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(node.Dir, "node.crt"), pki.EncodeCertificates(old), 0o600); err != nil {
		t.Fatal(err)
	}
	kv, err := store.Get(t.Context(), mastercfg.NodePrefix+"h1")
	if err != nil {
		t.Fatal(err)
	}
	var joined mastercfg.Joined
	if err := json.Unmarshal(kv.Value, &joined); err != nil {
		t.Fatal(err)
	}
	joined.Expires = old.NotAfter
	text, err := json.Marshal(joined)
	if err != nil {
		t.Fatal(err)
	}
	client, err := store.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), mastercfg.NodePrefix+"h1", string(text)); err != nil {
		t.Fatal(err)
	}

	node.TokenFile = ""
	on := time.Now()
	master = run(t, func(c *Config) { c.Security = cfg })
	serves()
	took = time.Since(on)
	t.Logf("after %s, a fresh cluster after %s", took.Round(time.Millisecond), fresh.Round(time.Millisecond))
	return took, fresh
}
