package daemon

import (
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
)

// Profiles are served on the socket only, and only if they are enabled.
func TestProfilesAreForRootOnTheSocketWhereTheyAreAskedFor(t *testing.T) {
	storetest.Open(t)
	dir := t.TempDir()
	for _, asked := range []bool{false, true} {
		cfg := Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityEnforced, Name: "m1", Socket: filepath.Join(dir, "netmaster.sock"), Debug: asked}
		n := run(t, func(c *Config) { c.Security = cfg })
		leader(t, n)
		all, err := pki.Load(cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		roots := []*x509.Certificate{all[pki.API].Certificate}
		master := certificate(t, all[pki.Client], identity.Identity{Kind: identity.Master, Name: "m2"}, x509.ExtKeyUsageClientAuth, time.Now())
		const page = debugPath + "goroutine?debug=1"
		code, answer := exchange(t, overSocket(t, cfg.Socket), "GET", "http://localhost"+page, "")
		if want := map[bool]int{true: 200, false: 404}[asked]; code != want || asked != strings.Contains(answer, "goroutine profile") {
			t.Errorf("root, asked for %t: %d %.200s", asked, code, answer)
		}
		for name, client := range map[string]*http.Client{"nobody": clientOf(t, roots), "a netmaster": clientOf(t, roots, master)} {
			if code, answer := exchange(t, client, "GET", "https://"+n.addr+page, ""); code/100 != 4 || strings.Contains(answer, "goroutine profile") {
				t.Errorf("%s, asked for %t: %d %.200s", name, asked, code, answer)
			}
		}
		n.shut()
	}
}
