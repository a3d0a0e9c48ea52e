package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Whoever changes the authority of the servers has a file with both for a while, then with the new one.
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
	trust(otherAuthority(t))
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

// otherAuthority makes a certificate that nobody uses.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
