// Package ldaptest is an LDAP directory for a test: persons with passwords, and nested groups. It serves TLS, or
// only StartTLS.
package ldaptest

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/hashicorp/go-hclog"
	"github.com/jimlambrt/gldap"

	"github.com/contiv/netplugin/test/testkit"
)

// The account for searches, and the base DN of persons.
const (
	Base            = "ou=people,dc=example,dc=org"
	Account         = "cn=reader,dc=example,dc=org"
	AccountPassword = "canary-of-the-account"
)

// Entry is a person or a group.
type Entry struct {
	Name     string   // of a person
	Password string   // empty: cannot bind
	MemberOf []string // DNs
}

// Directory serves entries by DN. Change them only by Set.
type Directory struct {
	Port        int
	Authorities string // PEM, the CA of its certificate

	stopped chan struct{} // closed when the test ends
	mu      sync.Mutex
	entries map[string]Entry
	asked   []string // filters of searches
	delay   time.Duration
}

// Start serves on 127.0.0.1 until the test ends.
func Start(t testing.TB, startTLS bool) *Directory {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	config := &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}
	d := &Directory{stopped: make(chan struct{}), entries: map[string]Entry{Account: {Password: AccountPassword}},
		Authorities: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}))}
	certified.Close()
	server, err := gldap.NewServer(gldap.WithLogger(hclog.NewNullLogger()))
	check(t, err)
	mux, err := gldap.NewMux()
	check(t, err)
	check(t, mux.Bind(d.bind))
	check(t, mux.Search(d.search))
	check(t, mux.ExtendedOperation(func(w *gldap.ResponseWriter, r *gldap.Request) {
		said := r.NewExtendedResponse(gldap.WithResponseCode(gldap.ResultSuccess))
		said.SetResponseName(gldap.ExtendedOperationStartTLS)
		if w.Write(said) == nil {
			_ = r.StartTLS(config) // the client reports a failure
		}
	}, gldap.ExtendedOperationStartTLS))
	check(t, server.Router(mux))
	address := testkit.FreeAddress()
	if _, err := fmt.Sscanf(address[strings.LastIndex(address, ":")+1:], "%d", &d.Port); err != nil {
		t.Fatal(err)
	}
	var options []gldap.Option
	if !startTLS {
		options = append(options, gldap.WithTLSConfig(config))
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(address, options...) }()
	t.Cleanup(func() {
		close(d.stopped)
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	testkit.Eventually(t, 10*time.Second, "the directory listens", server.Ready)
	return d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Set stores an entry.
func (d *Directory) Set(dn string, e Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries[dn] = e
}

// Slow delays every search.
func (d *Directory) Slow(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = delay
}

// Asked returns the filters of all searches so far.
func (d *Directory) Asked() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.asked, " ")
}

func (d *Directory) bind(w *gldap.ResponseWriter, r *gldap.Request) {
	said := r.NewBindResponse(gldap.WithResponseCode(gldap.ResultInvalidCredentials))
	if m, err := r.GetSimpleBindMessage(); err == nil {
		d.mu.Lock()
		e, there := d.entries[m.UserName]
		d.mu.Unlock()
		// As in real servers: a bind without a password succeeds, as anonymous.
		if m.Password == "" || there && e.Password == string(m.Password) {
			said.SetResultCode(gldap.ResultSuccess)
		}
	}
	_ = w.Write(said) // the client reports a failure
}

func (d *Directory) search(w *gldap.ResponseWriter, r *gldap.Request) {
	said := r.NewSearchDoneResponse(gldap.WithResponseCode(gldap.ResultSuccess))
	defer func() { _ = w.Write(said) }()
	m, err := r.GetSearchMessage()
	if err != nil {
		said.SetResultCode(gldap.ResultProtocolError)
		return
	}
	d.mu.Lock()
	d.asked = append(d.asked, m.Filter)
	found, delay := map[string]Entry{}, d.delay
	for dn, e := range d.entries {
		byName := e.Name != "" && strings.HasSuffix(dn, m.BaseDN) && (strings.EqualFold(m.Filter, "(sAMAccountName="+ldap.EscapeFilter(e.Name)+")") || m.Filter == "(sAMAccountName=*)")
		if byName && m.Scope == gldap.WholeSubtree || m.Scope == gldap.BaseObject && strings.EqualFold(dn, m.BaseDN) {
			found[dn] = e
		}
	}
	d.mu.Unlock()
	if delay > 0 {
		select { // the delay of Slow
		case <-time.After(delay):
		case <-d.stopped:
		}
	}
	if len(found) == 0 && m.Scope == gldap.BaseObject {
		said.SetResultCode(gldap.ResultNoSuchObject)
	}
	for dn, e := range found {
		_ = w.Write(r.NewSearchResponseEntry(dn, gldap.WithAttributes(map[string][]string{"memberOf": e.MemberOf})))
	}
}
