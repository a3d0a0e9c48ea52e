package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netctl"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// examples are objects of the kinds with secret fields, which the test fills in.
var examples = map[string]map[string]any{
	"Bgp": {"hostname": "h9", "routerip": "192.0.2.9/24", "as": "65001", "neighbor": "192.0.2.1", "neighbor-as": "65002"},
}

// canaries are random texts, by the kind of secret.
type canaries map[string]string

func (c canaries) new(of string) string {
	c[of] = "canary" + rand.Text()[:20]
	return c[of]
}

// Every secret that a netmaster receives or sends is found only where it belongs: not in the store, in no answer,
// log, audit line, metric, nor in what netctl writes.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	c := closedWith(t, "https:", "--log-level", "DEBUG") // the store lets in netmasters only
	all := canaries{}
	var told bytes.Buffer // all answers but those that show a new secret once
	ask := func(code int, client *http.Client, token, method, path, body string) string {
		t.Helper()
		is, answer, err := c.ask(client, token, method, path, body)
		if err != nil || code != 0 && is != code {
			t.Fatalf("%s %s: %d %s %v", method, path, is, answer, err)
		}
		return answer
	}
	tell := func(code int, method, path, body string) {
		t.Helper()
		told.WriteString(ask(code, c.root, "", method, path, body))
	}

	// the model's secrets
	watching, stop := c.watchAll()
	for _, kind := range contivmodel.Kinds() {
		for _, field := range kind.Fields {
			if !field.Secret() {
				continue
			}
			object := maps.Clone(examples[kind.Type])
			if object == nil {
				t.Fatalf("type %s has the secret field %s: want an example of such an object here", kind.Type, field.Name)
			}
			object[field.Name] = all.new(kind.Type + "." + field.Name)
			body, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			key := fmt.Sprint(object[kind.KeyFields()[0].Name])
			path := "/api/v1/" + kind.Segment + "/" + key + "/"
			apply := fmt.Sprintf(`{"operations":[{"op":"apply","type":%q,"object":%s}]}`, kind.Type, body)
			tell(200, "POST", path, string(body))
			tell(200, "PUT", path, string(body))
			tell(200, "POST", rest.ApplyPath+"?dryRun=true", apply)
			tell(200, "POST", rest.ApplyPath, apply)
			for _, bad := range []string{string(body[:len(body)-1]), strings.Replace(string(body), all[kind.Type+"."+field.Name], strings.Repeat(all[kind.Type+"."+field.Name], 100), 1)} {
				tell(500, "POST", path, bad)
			}
			tell(200, "GET", path, "")
			tell(200, "GET", "/api/v1/inspect/"+kind.Segment+"/"+key+"/", "")
		}
		tell(0, "GET", "/api/v1/"+kind.Segment+"/", "")
	}

	// logins, and directories of users
	tell(201, "PUT", logins.AuthPath+"/ldap_configuration/", `{"server":"127.0.0.1","port":1,"base_dn":"dc=x","service_account_dn":"cn=x","start_tls":true,"service_account_password":"`+all.new("directory")+`"}`)
	tell(201, "PUT", logins.AuthPath+"/openid_configuration/", `{"issuer":"https://127.0.0.1:1","client_id":"contiv","client_secret":"`+all.new("provider")+`"}`)
	tell(201, "POST", logins.AuthPath+"/local_users/", `{"username":"ann","password":"`+all.new("password")+`"}`)
	tell(201, "POST", logins.AuthPath+"/authorizations/", `{"principalName":"ann","local":true,"role":"admin"}`)
	over := c.from("127.0.0.1")
	all["session"] = shownSecret(t, ask(200, over, "", "POST", logins.AuthPath+"/login/", `{"username":"ann","password":"`+all["password"]+`"}`))
	all["API token"] = shownSecret(t, ask(201, c.root, "", "POST", logins.AuthPath+"/tokens/", `{"name":"ci","role":"viewer","tenants":["*"]}`))
	all["join token"] = shownSecret(t, ask(200, c.root, "", "POST", mastercfg.JoinTokensPath, `{"role":"node"}`))
	for _, wrong := range []string{all.new("wrong password"), all["password"] + "x"} { // of users of ours, and of somebody the directory is asked about
		for _, name := range []string{"ann", "eve"} {
			told.WriteString(ask(0, over, "", "POST", logins.AuthPath+"/login/", `{"username":"`+name+`","password":"`+wrong+`"}`))
		}
	}
	told.WriteString(ask(0, over, "", "GET", logins.AuthPath+"/openid/", ""))
	for _, list := range []string{"/local_users", "/authorizations", "/tokens", "/ldap_configuration", "/openid_configuration"} {
		told.WriteString(ask(200, over, c.sessionOf("ann", all["password"]), "GET", logins.AuthPath+list+"/", ""))
	}
	for _, path := range []string{mastercfg.JoinTokensPath, mastercfg.SecurityPath, mastercfg.SecurityPath + "/report", "/api/v1/status", "/info", "/metrics", "/services"} {
		tell(0, "GET", path, "")
	}
	// keys on the disk
	keys, err := os.ReadFile(filepath.Join(c.dir, "pki", "keyring.json"))
	var ring struct{ Keys map[string]string }
	if err != nil || json.Unmarshal(keys, &ring) != nil || len(ring.Keys) == 0 {
		t.Fatalf("keyring: %v", err)
	}
	for id, key := range ring.Keys {
		all["keyring "+id] = strings.TrimRight(key, "=")
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "pki", "*.key"))
	if err != nil || len(files) == 0 {
		t.Fatalf("keys: %v %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all["key "+filepath.Base(file)] = strings.Split(string(text), "\n")[1]
	}

	places := map[string]string{"netctl": c.netctl(), "what a watch tells": watching(), "the answers": told.String()}
	stop()
	for name, place := range map[string]string{"its command line": "cmdline", "its environment": "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, place))
		if err != nil {
			t.Fatal(err)
		}
		places[name] = string(text)
	}
	c.kill() // its files stay
	places["its log"] = c.log.String()
	if !strings.Contains(places["its log"], "level=debug") {
		t.Error("the log is not that of debugging")
	}
	for place, folder := range map[string]string{"the audit log": "audit.log", "the store": "etcd"} {
		text, err := contents(filepath.Join(c.dir, folder))
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %d bytes, %v", place, len(text), err)
		}
		places[place] = text
	}
	found := map[string][]string{}
	for of, canary := range all {
		for place, text := range places {
			if strings.Contains(text, canary) {
				found[of] = append(found[of], place)
			}
		}
	}
	for of, places := range found {
		t.Errorf("%s is in %q", of, places)
	}
	t.Logf("%d secrets, %d places", len(all), len(places))
}

// shownSecret returns the secret part of a token in an answer.
func shownSecret(t *testing.T, answer string) string {
	t.Helper()
	var said struct{ Token string }
	if err := json.Unmarshal([]byte(answer), &said); err != nil || len(said.Token) < 30 {
		t.Fatalf("no token: %s", answer)
	}
	parts := strings.FieldsFunc(said.Token, func(r rune) bool { return r == '_' || r == '.' })
	return parts[2]
}

// sessionOf returns the token of a new session.
func (c *closedOne) sessionOf(name, password string) string {
	c.Helper()
	_, answer, err := c.login(c.from("127.0.0.1"), name, password)
	var said struct{ Token string }
	if err != nil || json.Unmarshal([]byte(answer), &said) != nil {
		c.Fatalf("%s %v", answer, err)
	}
	return said.Token
}

// watchAll watches all kinds; told returns the changes received until then, once they are complete.
func (c *closedOne) watchAll() (told func() string, stop func()) {
	c.Helper()
	heard := &testkit.Text{}
	var open []io.Closer
	for _, kind := range contivmodel.Kinds() {
		resp, err := c.watcher().Get("http://localhost/api/v1/" + kind.Segment + "/?watch=true")
		if err != nil {
			c.Fatal(err)
		}
		open = append(open, resp.Body)
		go func() { _, _ = io.Copy(heard, resp.Body) }() // until it is closed
	}
	return func() string {
			testkit.Eventually(c, 20*time.Second, "the watches tell of changes", func() bool { return strings.Contains(heard.String(), `"192.0.2.9/24"`) })
			return heard.String()
		}, func() {
			for _, body := range open {
				_ = body.Close()
			}
		}
}

// watcher is a client on the socket whose answers have no end.
func (c *closedOne) watcher() *http.Client { return &http.Client{Transport: c.root.Transport} }

// netctl returns the output for users.
func (c *closedOne) netctl() string {
	c.Helper()
	var out bytes.Buffer
	for _, command := range []string{"export", "status", "check", "security status", "security report", "user ls", "api-token ls", "token ls", "openid show",
		"bgp ls", "bgp inspect h9", "get bgps -o yaml", "get bgps -o json", "describe bgp h9", "-v get bgps"} {
		netctl.Run(c.Context(), append([]string{"netctl", "--netmaster", "unix://" + filepath.Join(c.dir, "netmaster.sock")}, strings.Fields(command)...),
			strings.NewReader(""), &out, &out)
	}
	if !strings.Contains(out.String(), "192.0.2.9") {
		c.Errorf("netctl says nothing of what there is: %s", out.String())
	}
	return out.String()
}

// contents returns the content of a file, or of all files of a folder.
func contents(path string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all.Write(text)
		return err
	})
	return all.String(), err
}
