package netctl

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"github.com/contiv/netplugin/contivmodel"
)

// startOpenID starts a netmaster, with the provider to which it sends browsers: there is one person, with the code
// "good".
func startOpenID(t *testing.T) string {
	t.Helper()
	var mu sync.Mutex
	var sent url.Values // by the browser
	mux := http.NewServeMux()
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("GET /api/v1/auth_proxy/openid/", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(contivmodel.OpenIDClient{Issuer: s.URL, ClientID: "contiv", AuthURL: s.URL + "/auth", Scopes: []string{"profile"}})
	})
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent = r.URL.Query()
		mu.Unlock()
		back := sent.Get("redirect_uri") + "?" + url.Values{"code": {"good"}, "state": {sent.Get("state")}}.Encode()
		http.Redirect(w, r, back, http.StatusFound)
	})
	mux.HandleFunc("POST /api/v1/auth_proxy/openid/login/", func(w http.ResponseWriter, r *http.Request) {
		var proof contivmodel.OpenIDProof
		mu.Lock()
		defer mu.Unlock()
		if json.NewDecoder(r.Body).Decode(&proof) != nil || proof.Code != "good" || proof.Nonce == "" || proof.Nonce != sent.Get("nonce") || proof.Redirect != sent.Get("redirect_uri") ||
			oauth2.S256ChallengeFromVerifier(proof.Verifier) != sent.Get("code_challenge") || sent.Get("scope") != "openid profile" {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":"not the one"}`)
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"token": "token of oidc:ann"})
	})
	return s.URL
}

// browser visits the address that netctl prints, as soon as it is printed.
type browser struct {
	strings.Builder
	visit func(address string)
}

var shownAddress = regexp.MustCompile(`https://\S+/auth\?\S+`)

// Write implements io.Writer.
func (b *browser) Write(p []byte) (int, error) {
	if address := shownAddress.Find(p); address != nil {
		b.visit(string(address))
	}
	return b.Builder.Write(p)
}

// loginBy runs the command with a user at a browser.
func loginBy(t *testing.T, server, line string, input io.Reader, visit func(address string)) (outcome, string) {
	t.Helper()
	var stdout strings.Builder
	said := &browser{visit: visit}
	code := Run(t.Context(), append([]string{"netctl", "--insecure", "--netmaster", server}, words(line)...), input, &stdout, said)
	return outcome{code: code, stdout: stdout.String()}, said.String()
}

func TestALoginByBrowser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	t.Setenv("NETCTL_CONFIG", path)
	server := startOpenID(t)
	client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	var going sync.WaitGroup
	defer going.Wait()
	visit := func(address string) {
		going.Go(func() {
			resp, err := client.Get(address)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if page, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(page), "can be closed") {
				t.Errorf("the browser shows %s %s, %v", resp.Status, page, err)
			}
		})
	}
	got, _ := loginBy(t, server, "login --openid", nil, visit)
	wantOutcome(t, "by a browser of this machine", got, outcome{stdout: "Logged in at " + server + "\n"})

	// the browser is elsewhere: its address is typed
	input, typed := io.Pipe()
	defer input.Close()
	elsewhere := func(address string) {
		going.Go(func() {
			client := &http.Client{Transport: client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			resp, err := client.Get(address)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			io.WriteString(typed, resp.Header.Get("Location")+"\n")
		})
	}
	got, _ = loginBy(t, server, "login --openid --paste", input, elsewhere)
	wantOutcome(t, "by a browser elsewhere", got, outcome{stdout: "Logged in at " + server + "\n"})
	for address, want := range map[string]string{"http://127.0.0.1:1/callback?code=good&state=guessed": "another login", "nonsense": "another login", "http://%": "no address"} {
		got, said := loginBy(t, server, "login --openid --paste", strings.NewReader(address+"\n"), func(string) {})
		if got.code == 0 || !strings.Contains(said, want) {
			t.Errorf("%s: %+v %s", address, got, said)
		}
	}
	if code, err := codeOf("http://127.0.0.1/callback?error=access_denied&state=s", "s"); err == nil || code != "" || !strings.Contains(err.Error(), "access_denied") {
		t.Errorf("%q, %v", code, err)
	}
	// a page to which a third party directs the browser is not the callback
	stray := func(address string) {
		going.Go(func() {
			sent, err := url.Parse(address)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Get(sent.Query().Get("redirect_uri") + "?code=theirs&state=guessed")
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%v, %v", resp, err)
				return
			}
			resp.Body.Close()
			visit(address)
		})
	}
	got, _ = loginBy(t, server, "login --openid", nil, stray)
	wantOutcome(t, "after a stray visit", got, outcome{stdout: "Logged in at " + server + "\n"})
}

// Input that arrives early for the next server is not lost with the reader of the first.
func TestAddressesOfTwoServers(t *testing.T) {
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	servers := startOpenID(t) + "," + startOpenID(t)
	client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	input, typed := io.Pipe()
	defer input.Close()
	var going sync.WaitGroup
	defer going.Wait()
	begin, end := "?", "\nhttp://127.0.0.1/callback?"
	visit := func(address string) {
		before, after := begin, end
		begin, end = "", "\n"
		going.Go(func() {
			resp, err := client.Get(address)
			if err != nil {
				t.Error(err)
				typed.Close()
				return
			}
			resp.Body.Close()
			_, query, _ := strings.Cut(resp.Header.Get("Location"), "?")
			io.WriteString(typed, before+query+after)
		})
	}
	got, said := loginBy(t, servers, "login --openid --paste", input, visit)
	wantOutcome(t, said, got, outcome{stdout: "Logged in at " + strings.Replace(servers, ",", ", ", 1) + "\n"})
}

func TestFlagsOfAnotherWayToLogIn(t *testing.T) {
	for line, want := range map[string]string{"--openid --username ann": "together", "--openid -u ann": "together", "--openid --password-stdin": "together",
		"--paste": "--paste goes with --openid", "--port 80 -u ann": "--port goes with --openid"} {
		got, said := loginBy(t, "https://127.0.0.1:1", "login "+line, strings.NewReader("\n"), nil)
		if got.code != exitUsage || !strings.Contains(said, want) {
			t.Errorf("%s: %+v %s", line, got, said)
		}
	}
}
