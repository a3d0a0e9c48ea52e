package daemon

import (
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// audited has a netmaster write an audit log, and returns its path.
func audited(t *testing.T) (change func(*Config), path string) {
	path = filepath.Join(t.TempDir(), "audit.log")
	return func(c *Config) { c.API.Audit = audit.New(path, testkit.Quiet()) }, path
}

// writesDown waits for a line of an audit log that has all of these texts.
func writesDown(t *testing.T, path string, texts ...string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, "a line with "+strings.Join(texts, ", "), func() bool {
		log, err := os.ReadFile(path)
		for line := range strings.Lines(string(log)) {
			found := err == nil
			for _, text := range texts {
				found = found && strings.Contains(line, text)
			}
			if found {
				return true
			}
		}
		return false
	})
}

// A request refused before it reaches a leader is audited where it is refused, with the reason.
func TestRefusalsBeforeTheRoutesAreWrittenDown(t *testing.T) {
	enforced := func(t *testing.T) (n *node, path string) {
		storetest.Open(t)
		log, path := audited(t)
		n = run(t, log, func(c *Config) {
			c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Founding: mastercfg.SecurityEnforced, Name: "m1"}
		})
		leader(t, n)
		testkit.Eventually(t, 20*time.Second, "it is closed", func() bool { return n.daemon.mode.current() == mastercfg.SecurityEnforced })
		return n, path
	}
	t.Run("a bad certificate", func(t *testing.T) {
		n, path := enforced(t)
		others, err := pki.NewCluster(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		shown := certificate(t, others[pki.Client], identity.Identity{Kind: identity.Node, Name: "h1"}, x509.ExtKeyUsageClientAuth, time.Now())
		client := clientOf(t, []*x509.Certificate{n.daemon.certificates.authorities()[pki.API].Certificate}, shown)
		if code, answer := exchange(t, client, "GET", "https://"+n.addr+"/api/v1/tenants/", ""); code != http.StatusUnauthorized {
			t.Errorf("%d %s", code, answer)
		}
		writesDown(t, path, `"principal":"nobody","how":"certificate","source":"127.0.0.1","verb":"GET","key":"/api/v1/tenants/"`, `"decision":"denied"`,
			"not signed by an authority of this cluster", `"status":401`)
	})
	t.Run("plain HTTP", func(t *testing.T) {
		n, path := enforced(t)
		if code, answer, err := n.try("POST", "/api/v1/tenants/x/", "{}"); code != http.StatusForbidden || err != nil {
			t.Errorf("%d %s %v", code, answer, err)
		}
		writesDown(t, path, `"principal":"nobody","how":"nothing","source":"127.0.0.1","verb":"POST","key":"/api/v1/tenants/x/"`, "plain HTTP is not served here", `"status":403`)
	})
	t.Run("a page of another site", func(t *testing.T) {
		storetest.Open(t)
		log, path := audited(t)
		n := run(t, log)
		leader(t, n)
		if code, answer, err := n.try("DELETE", "/api/v1/tenants/x/", "", "Origin", "http://evil.example"); code != http.StatusForbidden || err != nil {
			t.Errorf("%d %s %v", code, answer, err)
		}
		writesDown(t, path, `"principal":"nobody","how":"nothing","source":"127.0.0.1","verb":"DELETE","key":"/api/v1/tenants/x/"`, "http://evil.example", `"status":403`)
	})
	t.Run("a token for others to read, at a follower", func(t *testing.T) {
		storetest.Open(t)
		first, _ := secured(t)
		log, path := audited(t)
		second := run(t, log, func(c *Config) { c.Security = first.daemon.cfg.Security; c.Security.Socket = "" })
		testkit.Eventually(t, 20*time.Second, "it knows how far the cluster is closed", func() bool { return second.daemon.mode.current() != "" })
		if code, answer, err := second.try("POST", mastercfg.JoinPath, "{}"); code == http.StatusOK || !strings.Contains(answer, "https only") || err != nil {
			t.Errorf("%d %s %v", code, answer, err)
		}
		writesDown(t, path, `"principal":"nobody","how":"nothing","source":"127.0.0.1","verb":"POST","key":"`+mastercfg.JoinPath+`"`, "https only", `"status":403`)
	})
}
