package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// A join token in the URL, which proxies may log, is refused, though all the rest is right, and netmaster records
// it nowhere.
func TestAJoinTokenInTheURLIsRefusedAndNotWrittenDown(t *testing.T) {
	c := closed(t, "--log-level", "DEBUG")
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(c.byRoot("POST", mastercfg.JoinTokensPath, `{"role":"node"}`)), &shown); err != nil {
		t.Fatal(err)
	}
	secret := strings.Split(shown.Token, ".")[2]
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	body := func(token string) string {
		text, err := json.Marshal(mastercfg.JoinRequest{Token: token, Host: "h1", CSR: csr, Addresses: []string{"192.0.2.1"}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	over := c.from("127.0.0.1")
	refused := func(client *http.Client, query string, code int) {
		t.Helper()
		is, answer, err := c.ask(client, "", "POST", mastercfg.JoinPath+"?"+query, body(""))
		if err != nil || is != code || !strings.Contains(answer, "token") || strings.Contains(answer, secret) {
			t.Errorf("%s: %d %s, %v; want %d", strings.ReplaceAll(query, secret, "SECRET"), is, answer, err, code)
		}
	}
	for _, query := range []string{"token=" + shown.Token, "Token=" + url.QueryEscape(shown.Token), "access_token=" + shown.Token, shown.Token} {
		refused(over, query, http.StatusInternalServerError) // the status that the original uses for any error
		refused(c.root, query, http.StatusInternalServerError)
	}
	resp, err := http.Post("http://"+c.addr+mastercfg.JoinPath+"?token="+shown.Token, "application/json", strings.NewReader(body("")))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("over plain HTTP: %d", resp.StatusCode)
	}
	if got := c.byRoot("GET", mastercfg.NodesPath, ""); strings.TrimSpace(got) != "[]" {
		t.Errorf("nodes: %s", got)
	}
	if got := c.byRoot("GET", mastercfg.JoinTokensPath, ""); !strings.Contains(got, shown.Record.ID) || !strings.Contains(got, `"used":0`) {
		t.Errorf("tokens: %s", got)
	}
	// Nor if the token is in the body, too, which makes the rest of the request valid.
	if code, answer, err := c.ask(over, "", "POST", mastercfg.JoinPath+"?token="+shown.Token, body(shown.Token)); err != nil || code != http.StatusOK {
		t.Errorf("in the body: %d %s, %v", code, answer, err)
	}

	var told []byte
	testkit.Eventually(t, 10*time.Second, "the audit log tells of joins", func() bool { // it is written behind the answer
		told, err = os.ReadFile(filepath.Join(c.dir, "audit.log"))
		return err == nil && strings.Contains(string(told), `"key":"`+mastercfg.JoinPath+`"`) && strings.Contains(string(told), `"status":403`) && strings.Contains(string(told), `"status":200`)
	})
	c.kill() // its files stay
	if told, err = os.ReadFile(filepath.Join(c.dir, "audit.log")); err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the audit log": string(told), "the log": c.log.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("the secret of the token is in %s", where)
		}
	}
	if !strings.Contains(c.log.String(), "level=debug") {
		t.Error("the log is not that of debugging")
	}
}
