package netctl

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// keyPair writes a new certificate and its key.
func keyPair(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	testkit.WritePair(t, testkit.SelfSigned(t, "netctl"), cert, key)
	return cert, key
}

func pemFile(t *testing.T, dir, name, typ string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBothSidesMayWantACertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		io.WriteString(w, "[]")
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	ca := pemFile(t, dir, "ca.pem", "CERTIFICATE", s.Certificate().Raw)
	cert, key := keyPair(t, dir)
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"tenant ls -q --cacert " + ca + " --cert " + cert + " --key " + key, 0, ""},
		{"--insecure --cert " + cert + " --key " + key + " tenant ls -q", 0, ""},
		{"tenant ls --cacert " + ca, exitDenied, "access denied"},
		{"tenant ls", exitUnreachable, "certificate refused"},
		{"tenant ls --cacert " + dir + "/none", exitUsage, "none: no such file"},
		{"tenant ls --cert " + cert, exitUsage, "client certificate"},
	} {
		if got := run(t, s.URL, c.line); got.code != c.code || !strings.Contains(got.stderr, c.says) || c.code == 0 && got.stderr != "" {
			t.Errorf("netctl %s: %v", c.line, got)
		}
	}
}

func TestATokenMayBeGivenInsteadOfALogin(t *testing.T) {
	url := startProxy(t)
	wantOutcome(t, "flag", typing(t, url, "tenant ls -q --token 'token of ann'", ""), outcome{})
	wantOutcome(t, "wrong", typing(t, url, "tenant ls -q --token other", ""), outcome{7, "", "error: access denied\n"})
	t.Setenv("NETCTL_TOKEN", "token of ann")
	wantOutcome(t, "environment", typing(t, url, "tenant ls -q", ""), outcome{})
	_, plain := startFake(t)
	wantOutcome(t, "http", run(t, plain, "tenant ls -q"),
		outcome{stderr: "warning: not logged in at " + plain + ": tokens are sent over https only\n"})
}
