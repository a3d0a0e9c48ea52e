package daemon

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// recorded are requests of clients of the original's authenticating proxy, as they were sent, and the answers:
// TOKEN is the token of the login, ID the id in the previous answer.
var recorded = []struct {
	method, path, token, body string
	code                      int
	answer                    string // regular expression
}{
	{"GET", "/api/v1/auth_proxy/version/", "", "", 200, `^\{"version":"[^"]*"\}$`},
	{"GET", "/api/v1/auth_proxy/health/", "", "", 200, `"netmaster":\{"reason":"","status":"healthy","version":"[^"]*"\},"status":"healthy","version":"[^"]*"\}$`},
	{"POST", "/api/v1/auth_proxy/login/", "", `{"username":"","password":"x"}`, 400, `^\{"error":".+"\}$`},
	{"POST", "/api/v1/auth_proxy/login/", "", `{"username":"ann","password":"wrong password"}`, 401, `^\{"error":"Invalid username/password"\}$`},
	{"POST", "/api/v1/auth_proxy/login/", "", `{"username":"ann","password":"correct horse battery"}`, 200, `^\{"token":"[^"]+"\}$`},
	{"GET", "/api/v1/auth_proxy/local_users/ann/", "TOKEN", "", 200, `^\{"username":"ann","first_name":"","last_name":"","disable":false\}$`},
	{"POST", "/api/v1/auth_proxy/local_users/", "TOKEN", `{"username":"bob","password":"another long one","first_name":"Bob","last_name":"B","disable":false}`, 201, `^\{"username":"bob","first_name":"Bob","last_name":"B","disable":false\}$`},
	{"PATCH", "/api/v1/auth_proxy/local_users/bob/", "TOKEN", `{"first_name":"Robert"}`, 200, `"first_name":"Robert"`},
	{"GET", "/api/v1/auth_proxy/local_users/", "TOKEN", "", 200, `^\[\{"username":"ann".*"username":"bob"`},
	{"POST", "/api/v1/tenants/blue/", "TOKEN", `{"tenantName":"blue"}`, 200, `"tenantName":"blue"`},
	{"POST", "/api/v1/auth_proxy/authorizations/", "TOKEN", `{"principalName":"bob","local":true,"role":"ops","tenantName":"blue"}`, 201,
		`^\{"AuthzUUID":"[0-9a-f-]{36}","PrincipalName":"bob","Local":true,"Role":"ops","TenantName":"blue"\}$`},
	{"GET", "/api/v1/auth_proxy/authorizations/ID/", "TOKEN", "", 200, `"PrincipalName":"bob"`},
	{"GET", "/api/v1/auth_proxy/authorizations/", "TOKEN", "", 200, `"PrincipalName":"bob"`},
	{"POST", "/api/v1/auth_proxy/authorizations/", "TOKEN", `{"principalName":"bob","local":true,"role":"ops"}`, 400, `"error"`},
	{"DELETE", "/api/v1/auth_proxy/authorizations/ID/", "TOKEN", "", 204, `^$`},
	{"POST", "/api/v1/networks/blue:web/", "TOKEN", `{"tenantName":"blue","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24"}`, 200, `"networkName":"web"`},
	{"PUT", "/api/v1/networks/blue:net/", "TOKEN", `{"tenantName":"blue","networkName":"net","encap":"vxlan","subnet":"10.8.0.0/24"}`, 200, `"networkName":"net"`},
	{"GET", "/api/v1/networks/", "TOKEN", "", 200, `"key":"blue:web"`},
	{"GET", "/api/v1/networks/blue:web/", "TOKEN", "", 200, `"key":"blue:web"`},
	{"GET", "/api/v1/inspect/networks/blue:web/", "TOKEN", "", 200, `"Config":\{"key":"blue:web"`},
	{"DELETE", "/api/v1/networks/blue:web/", "TOKEN", "", 200, `"?blue:web"?`},
	{"DELETE", "/api/v1/auth_proxy/local_users/bob/", "TOKEN", "", 204, `^$`},
	{"GET", "/api/v1/auth_proxy/local_users/bob/", "TOKEN", "", 404, `"error"`},
}

// asAgent returns the gate's answer to an agent without a certificate: the protocol, and the type of the first
// frame of HTTP/2.
func asAgent(t *testing.T, address string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{gateProtocol}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 9)
	_, err = io.ReadFull(conn, header)
	return fmt.Sprintf("%s %x %v", conn.ConnectionState().NegotiatedProtocol, header[3], err)
}

func TestClientsOfTheOriginalsProxyAreServedAtItsAddress(t *testing.T) {
	storetest.Open(t)
	dir := t.TempDir()
	address := testkit.FreeAddress()
	cfg := Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityEnforced, Name: "m1", Socket: filepath.Join(dir, "run", "netmaster.sock"), AuthProxy: address}
	n := run(t, func(c *Config) {
		c.Security = cfg
		c.API.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
	})
	leader(t, n)
	root := overSocket(t, cfg.Socket)
	for path, body := range map[string]string{"local_users/": `{"username":"ann","password":"correct horse battery"}`} {
		if code, answer := exchange(t, root, "POST", "http://localhost/api/v1/auth_proxy/"+path, body); code != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, code, answer)
		}
	}
	if code, answer := exchange(t, root, "POST", "http://localhost/api/v1/auth_proxy/authorizations/", `{"principalName":"ann","local":true,"role":"admin"}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	all, err := pki.Load(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, []*x509.Certificate{all[pki.API].Certificate})
	token, id := "", ""
	for _, r := range recorded {
		path := strings.ReplaceAll(r.path, "ID", id)
		req, err := http.NewRequest(r.method, "https://"+address+path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		if r.token != "" {
			req.Header.Set("X-Auth-Token", strings.ReplaceAll(r.token, "TOKEN", token))
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		answer := strings.TrimSpace(string(body))
		if err != nil || resp.StatusCode != r.code || !regexp.MustCompile(r.answer).MatchString(answer) {
			t.Errorf("%s %s %s: %d %s, %v; want %d %s", r.method, path, r.body, resp.StatusCode, answer, err, r.code, r.answer)
		}
		var said struct{ Token, AuthzUUID string }
		if json.Unmarshal(body, &said) == nil {
			token, id = cmp.Or(said.Token, token), cmp.Or(said.AuthzUUID, id)
		}
	}
	// it serves TLS only
	if resp, err := http.Get("http://" + address + "/version"); err == nil {
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("plain: %s", resp.Status)
		}
	}
	// agents that come here are served as elsewhere
	if here, there := asAgent(t, address), asAgent(t, n.addr); here != there || !strings.HasPrefix(here, gateProtocol+" ") {
		t.Errorf("an agent is served with %q, elsewhere with %q", here, there)
	}
	if code, answer := exchange(t, client, "GET", "https://"+address+"/healthz", ""); code != http.StatusOK {
		t.Errorf("after an agent: %d %s", code, answer)
	}
	if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
