package netctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netctl/credentials"
)

// startProxy starts an authenticating proxy in front of a netmaster without objects.
func startProxy(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var user struct{ Username, Password string }
		switch {
		case r.URL.Path != "/api/v1/auth_proxy/login/" && r.Header.Get("X-Auth-Token") == "token of ann":
			io.WriteString(w, "[]")
		case r.URL.Path != "/api/v1/auth_proxy/login/" || json.NewDecoder(r.Body).Decode(&user) != nil || user.Password != "secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			json.NewEncoder(w).Encode(map[string]string{"token": "token of " + user.Username})
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// typing runs a command with something on standard input.
func typing(t *testing.T, url, line, input string) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	args := append([]string{"netctl", "--insecure", "--netmaster", url}, words(line)...)
	code := Run(t.Context(), args, strings.NewReader(input), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestALoginCountsForLaterCommands(t *testing.T) {
	t.Setenv("NETCTL_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	url := startProxy(t)
	denied := outcome{7, "", "error: access denied\n"}
	wantOutcome(t, "before", typing(t, url, "tenant ls -q", ""), denied)
	wantOutcome(t, "wrong password", typing(t, url, "login -u ann --password-stdin", "guess\n"), outcome{7, "", "error: bad username or password\n"})
	wantOutcome(t, "no terminal", typing(t, url, "login -u ann", "secret\n"),
		outcome{4, "", "error: a password is asked for on a terminal only; use --password-stdin\n"})
	wantOutcome(t, "no name", typing(t, url, "login --password-stdin", "\n"), outcome{1, "", "Username: error: username required\n"})
	wantOutcome(t, "login", typing(t, url, "login --password-stdin", "ann\nsecret\n"), outcome{0, "Logged in at " + url + "\n", "Username: "})
	wantOutcome(t, "after", typing(t, url, "tenant ls -q", ""), outcome{})
	wantOutcome(t, "logout", typing(t, url, "logout", ""), outcome{stdout: "Logged out of " + url + "\n"})
	wantOutcome(t, "afterwards", typing(t, url, "tenant ls -q", ""), denied)
}

// The original's file may be readable by others.
func TestCredentialsThatOthersMayReadOrChangeAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	t.Setenv("NETCTL_CONFIG", path)
	url := startProxy(t)
	typing(t, url, "login --password-stdin", "ann\nsecret\n")
	for _, mode := range []os.FileMode{0o644, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, mode.String(), typing(t, url, "tenant ls -q", ""),
			outcome{stderr: fmt.Sprintf("warning: credentials %s: others may read or change it (mode %04o): run chmod 600 %[1]s\n", path, mode)})
	}
}

func TestALogoutKeepsTheTokenThatCountsForOtherServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	t.Setenv("NETCTL_CONFIG", path)
	url := startProxy(t)
	stored := credentials.Store{Token: "of the original"}
	stored.Set(url, "token of ann")
	if err := stored.Save(path); err != nil {
		t.Fatal(err)
	}
	kept := func(what, want string) {
		if now, err := credentials.Load(path); err != nil || now.Token != want || now.For(url) != want {
			t.Errorf("%s: %+v, %v", what, now, err)
		}
	}
	typing(t, "http://127.0.0.1:1", "logout", "") // which is sent no token
	typing(t, url, "logout", "")
	kept("logout of a session of its own", "of the original")
	typing(t, url, "logout", "")
	kept("logout of the one that the original counted for", "")
}

func TestTokensAreNeverSentWithoutEncryption(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	t.Setenv("NETCTL_CONFIG", path)
	var sent string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent += r.Header.Get("X-Auth-Token")
		io.WriteString(w, "[]")
	}))
	defer s.Close()
	if err := (credentials.Store{Token: "old"}).Save(path); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, "plain http", run(t, s.URL, "tenant ls -q"), outcome{0, "", "warning: not logged in at " + s.URL + ": tokens are sent over https only\n"})
	if sent != "" {
		t.Errorf("sent %q", sent)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, "damaged file", run(t, s.URL, "tenant ls -q"), outcome{0, "", "warning: credentials " + path + ": unexpected end of JSON input\n"})
	url := startProxy(t)
	wantOutcome(t, "damaged file, https", typing(t, url, "tenant ls -q", ""), outcome{3, "", "error: credentials " + path + ": unexpected end of JSON input\n"})
	wantOutcome(t, "login repairs it", typing(t, url, "login -u ann --password-stdin", "secret"),
		outcome{0, "Logged in at " + url + "\n", "warning: credentials " + path + ": unexpected end of JSON input; it is replaced\n"})
}
