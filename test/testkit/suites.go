package testkit

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
)

// OnlyAEAD checks that a server refuses handshakes of TLS 1.2 by each cipher suite of crypto/tls that is not ECDHE
// with AEAD, and accepts one that is.
func OnlyAEAD(t testing.TB, address string) {
	t.Helper()
	with := func(suites ...uint16) error {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: suites})
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	var good []uint16
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		switch {
		case !slices.Contains(s.SupportedVersions, tls.VersionTLS12):
		case strings.HasPrefix(s.Name, "TLS_ECDHE_") && (strings.Contains(s.Name, "_GCM_") || strings.Contains(s.Name, "_POLY1305")):
			good = append(good, s.ID)
		default:
			if err := with(s.ID); err == nil || !strings.Contains(err.Error(), "handshake failure") {
				t.Errorf("%s: suite %s: %v", address, s.Name, err)
			}
		}
	}
	if err := with(good...); err != nil {
		t.Errorf("%s: suites of ECDHE with AEAD: %v", address, err)
	}
}

// OnlyTLS13 checks that a server refuses clients that support at most TLS 1.2, and accepts others. protocols are
// those that the clients offer (ALPN); they may be empty.
func OnlyTLS13(t testing.TB, address string, protocols ...string) {
	t.Helper()
	for version, want := range map[uint16]string{tls.VersionTLS12: "protocol version not supported", tls.VersionTLS13: ""} {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: version, NextProtos: protocols})
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s for %q: %v", address, tls.VersionName(version), protocols, err)
		}
	}
}
