package netctl

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel/client"
)

// A bundle is replaced by that of the cluster if no certificate gets lost. A bundle to which the user has added
// stays, and the cluster's is written beside it.
func TestABundleWithCertificatesOfOthersIsLeftAsItIs(t *testing.T) {
	one := func(text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
	}
	first, second, other := one("first"), one("second"), one("other")
	for _, c := range []struct {
		name, there, cluster string
		stays                bool
	}{
		{"none yet", "", first, false},
		{"the same", first, first, false},
		{"an authority more", first, second + first, false},
		{"what another cluster has, too", first + other, first, true},
		{"and while authorities are replaced", first + other, second + first, true},
		{"an authority less", first + second, second, true},
		{"another cluster's", other, first, true},
		{"no certificate", "something else", first, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewEncoder(w).Encode(client.UserCertificate{Certificate: one("ann"), Authorities: c.cluster})
			}))
			defer s.Close()
			dir := t.TempDir()
			shared, own := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ann.ca.pem")
			if c.there != "" {
				if err := os.WriteFile(shared, []byte(c.there), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, s.URL, "user cert --dir "+dir+" ann")
			used, want := shared, c.cluster
			if c.stays {
				used, want = own, c.there
			}
			if got.code != 0 || !strings.HasSuffix(got.stdout, "--cacert "+used+"\n") || strings.Contains(got.stderr, "left as it is") != c.stays {
				t.Errorf("%+v", got)
			}
			if text, err := os.ReadFile(used); err != nil || string(text) != c.cluster {
				t.Errorf("%s: %q, %v", used, text, err)
			}
			if text, err := os.ReadFile(shared); err != nil || string(text) != want {
				t.Errorf("%s is %q, %v, want %q", shared, text, err, want)
			}
		})
	}
}
