package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// counted counts verifications.
type counted struct {
	verifier
	times atomic.Int32
}

func (c *counted) Identify(chain []*x509.Certificate, now time.Time) (cachedIdentity, error) {
	c.times.Add(1)
	return c.verifier.Identify(chain, now)
}

func TestACertificateIsVerifiedOnceForItsConnection(t *testing.T) {
	count := &counted{}
	addr, p := servedBy(t, func(p *certificates) verifier { count.verifier = p; return count })
	client := nodeClient(t, p)
	for range 10 {
		if code, answer := exchange(t, client, "GET", "https://"+addr+"/who", ""); code != http.StatusOK || !strings.HasPrefix(answer, "node/h1 key=true") {
			t.Fatalf("%d %s", code, answer)
		}
	}
	if n := count.times.Load(); n != 1 {
		t.Errorf("verified %d times for 10 requests", n)
	}
}

// An open connection proves nothing once its CA has been replaced.
func TestWhoIsTrustedNoMoreIsRefusedOnHisConnection(t *testing.T) {
	addr, p := served(t)
	client := nodeClient(t, p)
	if code, answer := exchange(t, client, "GET", "https://"+addr+"/who", ""); code != http.StatusOK || !strings.HasPrefix(answer, "node/h1 key=true") {
		t.Fatalf("%d %s", code, answer)
	}
	if err := p.renew(p.current.Load()); err != nil {
		t.Fatal(err)
	}
	if code, answer := exchange(t, client, "GET", "https://"+addr+"/who", ""); code != http.StatusOK || !strings.HasPrefix(answer, "node/h1 key=true") {
		t.Errorf("with other certificates of the same authorities: %d %s", code, answer)
	}
	others, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.replace(p.authorities(), others); err != nil {
		t.Fatal(err)
	}
	if code, answer := exchange(t, client, "GET", "https://"+addr+"/who", ""); code != http.StatusUnauthorized {
		t.Errorf("with other authorities: %d %s", code, answer)
	}
}

// nodeClient is node h1, with one connection to a netmaster.
func nodeClient(t *testing.T, p *certificates) *http.Client {
	all := p.authorities()
	return clientOf(t, []*x509.Certificate{all[pki.API].Certificate},
		certificate(t, all[pki.Client], identity.Identity{Kind: identity.Node, Name: "h1"}, x509.ExtKeyUsageClientAuth, time.Now()))
}

// A cached identity ends when verifying may have another result.
func TestAFindingHoldsUntilTimeOrTrustChange(t *testing.T) {
	_, p := served(t)
	now := time.Now()
	all := p.authorities()
	own := certificate(t, all[pki.Client], identity.Identity{Kind: identity.Node, Name: "h1"}, x509.ExtKeyUsageClientAuth, now)
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	find := func() cachedIdentity {
		t.Helper()
		f, err := p.Identify([]*x509.Certificate{leaf}, now)
		if err != nil || f.who.Name != "h1" || !f.holds(now) {
			t.Fatalf("%+v, %v", f, err)
		}
		return f
	}
	f := find()
	for at, want := range map[time.Time]bool{
		now.Add(-time.Second): false, now.Add(time.Hour): true, leaf.NotAfter.Add(-time.Second): true, leaf.NotAfter: false, leaf.NotAfter.Add(time.Second): false,
	} {
		if f.holds(at) != want {
			t.Errorf("%s after it was found it holds: %t", at.Sub(now), !want)
		}
	}
	reread := make(chan os.Signal)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.own.Run(ctx, reread) }()
	reread <- syscall.SIGHUP
	testkit.Eventually(t, 10*time.Second, "it ends when the operator's files are read again", func() bool { return !f.holds(now) })
	end()
	<-ended
	f = find()
	if err := p.renew(p.current.Load()); err != nil {
		t.Fatal(err)
	}
	if f.holds(now) {
		t.Error("it holds when netmaster uses something else")
	}
	if _, err := p.Identify([]*x509.Certificate{leaf}, leaf.NotAfter.Add(time.Second)); err == nil {
		t.Error("who has a certificate that has ended is found")
	}
}

// The first of all certificates to become valid or to expire ends the cached identity.
func TestTheNextTurnIsThatOfAnyCertificate(t *testing.T) {
	now := time.Now()
	cert := func(from, until time.Duration) *x509.Certificate {
		return &x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(until)}
	}
	leaf := cert(-time.Hour, time.Hour)
	for want, others := range map[time.Duration][]*x509.Certificate{
		time.Hour:        {cert(-2*time.Hour, 2*time.Hour), cert(-2*time.Hour, -time.Hour)},
		time.Minute:      {cert(-time.Hour, time.Minute)},
		2 * time.Minute:  {cert(2*time.Minute, 2*time.Hour)},
		30 * time.Second: {cert(time.Minute, 2*time.Hour), cert(-time.Hour, 30*time.Second)},
	} {
		if got := nextValidityChange(now, append([]*x509.Certificate{leaf}, others...)).Sub(now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// asked records the time of a verification.
type asked struct{ at time.Time }

func (a *asked) Identify(_ []*x509.Certificate, now time.Time) (cachedIdentity, error) {
	a.at = now
	return cachedIdentity{holds: func(time.Time) bool { return true }}, nil
}

// The monotonic clock never goes back between two readings; the wall clock may.
func TestAFindingIsOfTheWallClock(t *testing.T) {
	conn, by := &connection{}, &asked{}
	conn.secured.Store(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}})
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, net.Conn(conn)), "GET", "/", nil)
	if _, err := identityOf(r, by); err != nil || by.at.IsZero() || by.at != by.at.Round(0) {
		t.Errorf("found at %s: %v", by.at, err)
	}
}
