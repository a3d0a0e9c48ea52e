package tlsfiles

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// write puts a certificate and its key, both new, into the files.
func write(t *testing.T, f Files, name string) {
	t.Helper()
	testkit.WritePair(t, testkit.SelfSigned(t, name), f.Cert, f.Key)
}

func TestARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	var shown string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown = r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	f := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(f.CA, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, f, "first")
	conf, err := f.Client()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	for _, name := range []string{"first", "second"} {
		write(t, f, name)
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if shown != name {
			t.Errorf("shown: %s, want %s", shown, name)
		}
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]Files{
		"/no/such/ca":     {CA: "/no/such/ca"},
		empty + " holds":  {CA: empty},
		"/no/such/cert":   {Cert: "/no/such/cert", Key: empty},
		"certificate , k": {Key: empty},
	} {
		if _, err := f.Client(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
