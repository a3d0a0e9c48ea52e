package client

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// To replace the CA of the servers, the file has both for a while, then the new one.
func TestAnAuthorityThatIsReplacedNeedsNoOtherClient(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that clients give up
	s.StartTLS()
	defer s.Close()
	s.Config.SetKeepAlivesEnabled(false)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(certificate []byte) {
		t.Helper()
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(testkit.SelfSigned(t, "other").Certificate[0])
	c := connectTo(t, Config{URLs: []string{s.URL}, CAFile: ca})
	ask := func() error {
		_, err := List[contivmodel.Tenant](t.Context(), c)
		return err
	}
	if err := ask(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "certificate refused") {
		t.Errorf("authority of others: %v", err)
	}
	trust(s.Certificate().Raw)
	if err := ask(); err != nil {
		t.Errorf("authority of the server: %v", err)
	}
	if err := os.WriteFile(ca, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "holds none") {
		t.Errorf("no authority: %v", err)
	}
}

// A server's list of its CAs is read before the server is trusted, and suffices to trust it then.
func TestAServerNamesItsAuthorities(t *testing.T) {
	var named string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"authorities": named})
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	inPEM := func(certificate []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	}
	other := inPEM(testkit.SelfSigned(t, "other").Certificate[0])
	named = other + inPEM(s.Certificate().Raw)
	for _, trusted := range []string{"", other} {
		if _, err := connectTo(t, Config{URLs: []string{s.URL}, Authorities: map[string]string{s.URL: trusted}}).Authorities(t.Context()); !IsUnknownAuthority(err) {
			t.Errorf("unknown: %v", err)
		}
	}
	all, err := connectTo(t, Config{URLs: []string{s.URL}, Insecure: true}).Authorities(t.Context())
	if err != nil || len(all) != 2 || all[0].PEM != other || len(all[1].Pin) != 64 || all[0].Pin == all[1].Pin {
		t.Fatalf("%+v, %v", all, err)
	}
	if _, err := connectTo(t, Config{URLs: []string{s.URL}, Authorities: map[string]string{s.URL: all[1].PEM}}).Authorities(t.Context()); err != nil {
		t.Error(err)
	}
	named = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	if _, err := connectTo(t, Config{URLs: []string{s.URL}, Insecure: true}).Authorities(t.Context()); err == nil || IsUnknownAuthority(err) {
		t.Errorf("nonsense: %v", err)
	}
	if _, err := New(Config{URLs: []string{s.URL}, Authorities: map[string]string{s.URL: "nonsense"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("nonsense to trust: %v", err)
	}
}
