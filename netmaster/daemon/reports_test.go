package daemon

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// The leader's report of what an enforced cluster would have refused includes those of other netmasters; one that
// does not answer is named.
func TestTheReportIsOfAllWhoHaveLed(t *testing.T) {
	storetest.Open(t)
	dir := t.TempDir()
	start := func(name string) *node {
		return run(t, func(c *Config) {
			c.Security = Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityPermissive, Name: name, Socket: filepath.Join(dir, name+".sock")}
		})
	}
	socketOf := map[*node]string{}
	a := start("m1")
	leader(t, a)
	b := start("m2")
	socketOf[a], socketOf[b] = filepath.Join(dir, "m1.sock"), filepath.Join(dir, "m2.sock")
	report := func(n *node) contivmodel.SecurityReport {
		t.Helper()
		code, answer := exchange(t, overSocket(t, socketOf[n]), "GET", "http://localhost"+mastercfg.SecurityPath+"/report", "")
		var said contivmodel.SecurityReport
		if err := json.Unmarshal([]byte(answer), &said); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s, %v", code, answer, err)
		}
		return said
	}
	counted := func(n *node) (sum int64) {
		for _, row := range report(n).Rows {
			if row.Principal == "nobody" && row.Request == "GET /api/v1/tenants" {
				sum += row.Count
			}
		}
		return sum
	}
	a.ok("POST", "/api/v1/networks/default:web/", webNetwork)
	for range 3 {
		a.ok("GET", "/api/v1/tenants", "") // nobody, who reads
	}
	if n := counted(a); n != 3 {
		t.Fatalf("counted %d", n)
	}
	usurp(t)
	testkit.Eventually(t, time.Minute, "the other leads", func() bool {
		_, _, _ = a.endpoint("probe") // the deposed one finds out
		return b.leads() && !a.leads()
	})
	b.ok("GET", "/api/v1/tenants", "")
	for _, n := range []*node{a, b} {
		testkit.Eventually(t, time.Minute, "those of both terms are counted, asked of "+n.addr, func() bool {
			sum := counted(n)
			if sum > 4 {
				t.Fatalf("asked of %s: counted %d, want those of both terms", n.addr, sum)
			}
			return sum == 4
		})
	}
	all, err := pki.Load(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	roots := []*x509.Certificate{all[pki.API].Certificate}
	stranger := certificate(t, all[pki.Client], identity.Identity{Kind: identity.User, Name: "ann"}, x509.ExtKeyUsageClientAuth, time.Now())
	if code, answer := exchange(t, clientOf(t, roots, stranger), "GET", "https://"+a.addr+reportPath, ""); code != http.StatusForbidden {
		t.Errorf("a user is told: %d %s", code, answer)
	}
	db := b.daemon.db
	other := b.daemon.registered()
	other[0].Port = 1 // without a listener
	gone, err := db.Register(t.Context(), serviceTTL, other...)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close(t.Context())
	testkit.Eventually(t, time.Minute, "who is silent is named", func() bool { return len(report(b).Silent) == 1 })
}
