package netctl

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netctl/credentials"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
)

// closedMaster is a netmaster of a cluster with CAs, which accepts one password.
type closedMaster struct {
	url    string
	all    pki.Authorities
	named  atomic.Value // its list of its CAs, PEM
	logins atomic.Int32 // that have reached it
	denies atomic.Bool  // whatever password
	lists  atomic.Int32 // requested after a login
}

func startClosed(t *testing.T) *closedMaster {
	t.Helper()
	all, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &closedMaster{all: all}
	m.named.Store(inPEMOf(all))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/ca":
			json.NewEncoder(w).Encode(map[string]string{"authorities": m.named.Load().(string)})
		case r.URL.Path == "/api/v1/auth_proxy/login/":
			m.logins.Add(1)
			if m.denies.Load() {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			io.WriteString(w, `{"token":"token of ann"}`)
		case r.Header.Get("X-Auth-Token") == "token of ann":
			m.lists.Add(1)
			io.WriteString(w, "[]")
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that are refused
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := all[pki.API].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Master, Name: "m1"}, Use: x509.ExtKeyUsageServerAuth, Key: key.Public(),
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

func inPEMOf(all pki.Authorities) string {
	return string(pki.EncodeCertificates(all[pki.API].Certificate))
}

// by runs a command at the server, without --insecure.
func (m *closedMaster) by(t *testing.T, line, input string) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	args := append([]string{"netctl", "--netmaster", m.url}, words(line)...)
	code := Run(t.Context(), args, strings.NewReader(input), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// refused expects a command to fail before a password has reached the server.
func (m *closedMaster) refused(t *testing.T, what, line, input, says string) {
	t.Helper()
	before := m.logins.Load()
	got := m.by(t, line, input)
	if got.code == 0 || !strings.Contains(got.stderr, says) {
		t.Errorf("%s: %+v, want %q", what, got, says)
	}
	if m.logins.Load() != before {
		t.Errorf("%s: the password has reached the server", what)
	}
}

// A login from another machine needs no copied file: the pin proves the identity of the server.
func TestAServerIsKnownByThePinOfItsAuthority(t *testing.T) {
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	m, other := startClosed(t), startClosed(t)
	pin, otherPin := pki.KeyHash(m.all[pki.API].Certificate), pki.KeyHash(other.all[pki.API].Certificate)
	const login = "login -u ann --password-stdin"
	m.refused(t, "nobody says that it is right", login, "secret\n", pin)
	m.refused(t, "somebody says that it is wrong", "login -u ann", "no\n", "Is it the same there?")
	m.refused(t, "nobody answers", "login -u ann", "", pin)
	m.refused(t, "another pin", login+" --pin "+otherPin, "secret\n", "not the one given")
	m.refused(t, "two ways", "--insecure "+login+" --pin "+pin, "secret\n", "goes neither with")
	m.refused(t, "no login yet", "tenant ls -q", "", "netctl login asks for the pin")

	wantOutcome(t, "the right pin", m.by(t, login+" --pin "+strings.ToUpper(pin), "secret\n"), outcome{stdout: "Logged in at " + m.url + "\n"})
	wantOutcome(t, "later", m.by(t, "tenant ls -q", ""), outcome{})
	other.refused(t, "another cluster", "tenant ls -q", "", "certificate refused")
	wantOutcome(t, "logout", m.by(t, "logout", ""), outcome{stdout: "Logged out of " + m.url + "\n"})
	wantOutcome(t, "without the pin", m.by(t, login, "secret\n"), outcome{stdout: "Logged in at " + m.url + "\n"})

	// A CA that will replace it is known before it signs.
	m.named.Store(inPEMOf(m.all) + inPEMOf(other.all))
	wantOutcome(t, "two authorities", m.by(t, login, "secret\n"), outcome{stdout: "Logged in at " + m.url + "\n"})
	stored, err := credentials.Load(credentials.File())
	if err != nil || !strings.Contains(stored.Authorities(m.url)[m.url], inPEMOf(other.all)) {
		t.Errorf("the next authority is not known: %+v, %v", stored, err)
	}

	// The same at the first login.
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	wantOutcome(t, "the right pin, of two authorities", m.by(t, login+" --pin "+pin, "secret\n"), outcome{stdout: "Logged in at " + m.url + "\n"})
	stored, err = credentials.Load(credentials.File())
	if known := stored.Authorities(m.url)[m.url]; err != nil || !strings.Contains(known, inPEMOf(other.all)) || !strings.Contains(known, inPEMOf(m.all)) {
		t.Errorf("the first login has kept %q, %v", known, err)
	}
}

// Successful logins are kept, whatever becomes of the others.
func TestALoginAtSomeServersCountsThere(t *testing.T) {
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	m, other := startClosed(t), startClosed(t)
	pin, otherPin := pki.KeyHash(m.all[pki.API].Certificate), pki.KeyHash(other.all[pki.API].Certificate)
	const gone, login = "https://127.0.0.1:1", "login -u ann --password-stdin"
	for _, urls := range []string{m.url + "," + other.url + "," + gone, gone + "," + other.url + "," + m.url} {
		t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
		got := (&closedMaster{url: urls}).by(t, login+" --pin "+pin, "secret\n")
		if got.code != exitPartial || got.stdout != "Logged in at "+m.url+"\n" || strings.Count(got.stderr, "\n") != 2 ||
			!strings.Contains(got.stderr, "warning: not logged in at "+other.url+": ") || !strings.Contains(got.stderr, "warning: not logged in at "+gone+": ") {
			t.Errorf("some of %s: %v", urls, got)
		}
		wantOutcome(t, "later", m.by(t, "tenant ls -q", ""), outcome{})
	}
	if other.logins.Load() > 0 {
		t.Error("a server with another pin was sent the password")
	}
	both := &closedMaster{url: gone + "," + m.url}
	m.denies.Store(true)
	wantOutcome(t, "refused by the one that is there", both.by(t, login, "secret\n"), outcome{7, "", "error: bad username or password\n"})

	// A wrong password does not make netctl ask for a confirmed CA again.
	other.denies.Store(true)
	wantOutcome(t, "wrong password", other.by(t, login+" --pin "+otherPin, "guess\n"), outcome{7, "", "error: bad username or password\n"})
	other.denies.Store(false)
	wantOutcome(t, "the right one", other.by(t, login, "secret\n"), outcome{stdout: "Logged in at " + other.url + "\n"})

	asked := other.logins.Load()
	both.url = m.url + "," + other.url
	wantOutcome(t, "refused by the first", both.by(t, login, "secret\n"), outcome{7, "", "error: bad username or password\n"})
	if other.logins.Load() != asked {
		t.Error("a second server was asked for what the first one has refused")
	}
}

// ownRoots returns a file of CAs that the system trusts. As a program reads them once, the test runs in another
// one, and is done if the file is empty.
func ownRoots(t *testing.T) (file string) {
	t.Helper()
	if file = os.Getenv("NETCTL_TEST_ROOTS"); file != "" {
		return file
	}
	file = filepath.Join(t.TempDir(), "roots.pem")
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	again.Env = append(os.Environ(), "NETCTL_TEST_ROOTS="+file, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+filepath.Dir(file))
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

// Of the netmasters of a cluster one presents a certificate of the cluster's CA, another one the operators' own:
// both are known, whichever is named first, and neither by the CA of the other.
func TestServersAreKnownEachByItsAuthorities(t *testing.T) {
	roots := ownRoots(t)
	if roots == "" {
		return
	}
	pinned, public := startClosed(t), startClosed(t)
	if err := os.WriteFile(roots, []byte(inPEMOf(public.all)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, first := range []*closedMaster{pinned, public} {
		t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
		urls := map[*closedMaster]string{pinned: pinned.url + "," + public.url, public: public.url + "," + pinned.url}[first]
		both := &closedMaster{url: urls}
		got := both.by(t, "login -u ann", "yes\n")
		if !strings.Contains(got.stderr, "The authority of "+pinned.url) || strings.Contains(got.stderr, "The authority of "+public.url) {
			t.Errorf("asked: %s", got.stderr)
		}
		var stored credentials.Store
		stored.Trust(pinned.url, inPEMOf(pinned.all))
		if err := stored.Save(credentials.File()); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, "login", both.by(t, "login -u ann --password-stdin", "secret\n"), outcome{stdout: "Logged in at " + strings.ReplaceAll(urls, ",", ", ") + "\n"})
		if now, err := credentials.Load(credentials.File()); err != nil || len(now.Authorities(pinned.url, public.url)) != 1 {
			t.Errorf("kept: %+v, %v", now, err)
		}
		before := first.lists.Load()
		wantOutcome(t, "later", both.by(t, "tenant ls -q", ""), outcome{})
		if first.lists.Load() == before {
			t.Errorf("%s is not known", first.url)
		}
		wantOutcome(t, "logout", both.by(t, "logout", ""), outcome{stdout: "Logged out of " + strings.ReplaceAll(urls, ",", ", ") + "\n"})
		// The system's CAs do not count for a server that was pinned.
		stored.Trust(public.url, inPEMOf(pinned.all))
		if err := stored.Save(credentials.File()); err != nil {
			t.Fatal(err)
		}
		both.url = public.url
		both.refused(t, "pinned", "tenant ls -q", "", "certificate refused")
	}
}

// A server known by its cluster's CA stays known when it has got a certificate of a CA that the system trusts.
func TestAServerMayGetACertificateThatTheSystemKnows(t *testing.T) {
	roots := ownRoots(t)
	if roots == "" {
		return
	}
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	m, before, stranger := startClosed(t), startClosed(t), startClosed(t)
	if err := os.WriteFile(roots, []byte(inPEMOf(m.all)), 0o600); err != nil {
		t.Fatal(err)
	}
	var stored credentials.Store
	stored.Trust(m.url, inPEMOf(before.all))
	stored.Trust(stranger.url, inPEMOf(before.all))
	if err := stored.Save(credentials.File()); err != nil {
		t.Fatal(err)
	}
	const login = "login -u ann --password-stdin"
	wantOutcome(t, "the system knows it", m.by(t, login, "secret\n"), outcome{stdout: "Logged in at " + m.url + "\n",
		stderr: m.url + " is known by an authority of the system now; that of earlier logins is forgotten\n"})
	wantOutcome(t, "later", m.by(t, "tenant ls -q", ""), outcome{})
	stranger.refused(t, "nobody knows it", login, "secret\n", "is not known here")
	if now, err := credentials.Load(credentials.File()); err != nil || len(now.Authorities(m.url)) > 0 || len(now.Authorities(stranger.url)) == 0 {
		t.Errorf("kept: %+v, %v", now, err)
	}
}

// A man in the middle lists the cluster's CA beside its own: netctl asks for the pin of the latter.
func TestAnotherServerDoesNotPassWithAForeignPin(t *testing.T) {
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	m, between := startClosed(t), startClosed(t)
	pin := pki.KeyHash(m.all[pki.API].Certificate)
	for _, named := range []string{inPEMOf(m.all) + inPEMOf(between.all), inPEMOf(between.all) + inPEMOf(m.all), inPEMOf(m.all), ""} {
		between.named.Store(named)
		between.refused(t, "in between", "login -u ann --password-stdin --pin "+pin, "secret\n", between.url)
		if got := between.by(t, "login -u ann", "no\n"); strings.Contains(got.stderr, pin) {
			t.Errorf("a foreign pin is shown: %s", got.stderr)
		}
	}
}
