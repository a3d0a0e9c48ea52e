package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/internal/ldaptest"
	"github.com/contiv/netplugin/netmaster/internal/openidtest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A secret in a request never appears again: not in answers, watches and refusals, not in logs, not in the audit
// log, and not in the store.
func TestSecretsAreNotTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	audited := audit.New(path, testkit.Quiet())
	log := &testkit.Text{}
	logger := logrus.New()
	logger.SetOutput(log)
	logger.SetLevel(logrus.TraceLevel)
	keys := keyring.In(t.TempDir())
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Keyring, c.Audit, c.Log = keys, audited, logger.WithField("component", "api")
	})
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.SecurityKey, mastercfg.Security{Mode: mastercfg.SecurityEnforced, ClusterID: "c", Sealed: true})
	})
	const router, local = "canary-of-a-router", "canary-of-a-user"
	operator := b.user("op", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere})
	heard := b.watchAs("Bgps/?watch=true", operator)
	var told strings.Builder
	ask := func(who, method, path, body string, codes ...int) string {
		t.Helper()
		code, answer, header := b.as(who, method, path, body)
		told.WriteString(answer + fmt.Sprint(header))
		if len(codes) > 0 && code != codes[0] {
			t.Errorf("%s %s: %d %s", method, path, code, answer)
		}
		return answer
	}
	speaker := func(password string) string {
		return `{"hostname":"h9","routerip":"192.0.2.9/24","as":"65001","neighbor":"192.0.2.1","neighbor-as":"65002"` + password + `}`
	}
	with := func(password string) string { return speaker(`,"password":"` + password + `"`) }
	if answer := ask(operator, "POST", "Bgps/h9", with(router), 200); !strings.Contains(answer, `"password":"***"`) {
		t.Errorf("made: %s", answer)
	}
	// changes that do not name it, or send back its placeholder, leave it
	stored := func(want string) {
		t.Helper()
		sealed := string(record[mastercfg.CfgBgpState](b, mastercfg.BgpPrefix+"h9").Password)
		if got, err := keys.Open(mastercfg.ModelKey("Bgp", "h9"), sealed); err != nil || got != want {
			t.Errorf("the node is told another password, of %d bytes: %v", len(got), err)
		}
	}
	read := ask(operator, "GET", "Bgps/h9", "", 200)
	apply := func(object string) string {
		return `{"operations":[{"op":"apply","type":"Bgp","object":` + object + `}]}`
	}
	for _, change := range [][3]string{{"PUT", "Bgps/h9", speaker("")}, {"POST", "Bgps/h9", read}, {"POST", rest.ApplyPath, apply(speaker(""))}, {"POST", rest.ApplyPath, apply(read)}, {"POST", rest.ApplyPath, apply(with(router))}} {
		if answer := ask(operator, change[0], change[1], change[2], 200); change[1] == rest.ApplyPath && !strings.Contains(answer, "unchanged") {
			t.Errorf("%s: %s", change[2], answer)
		}
		stored(router)
	}
	ask(operator, "POST", rest.ApplyPath, apply(with(router+"2")), 200)
	stored(router + "2")
	ask(operator, "POST", "Bgps/h10", strings.ReplaceAll(with("***"), "h9", "h10"), 500)
	for _, refused := range []string{with(strings.Repeat(router, 10)), with(router + `\n`), strings.Replace(with(router), "192.0.2.9/24", "nowhere", 1), with(router) + "x", `{"password":["` + router + `"]}`} {
		ask(operator, "POST", "Bgps/h11", refused)
		ask(operator, "POST", rest.ApplyPath, apply(refused))
		b.do("POST", "Bgps/h11", refused, auth.TokenHeader, operator, "Accept", fault.ProblemType)
	}
	for _, kind := range contivmodel.Kinds() {
		ask("proven:root", "GET", kind.Segment, "")
	}
	ask(operator, "GET", "inspect/Bgps/h9", "", 200)
	ask(operator, "DELETE", "Bgps/h9", "", 200)
	for events := 0; events < 3; {
		e, ok := heard.next()
		if !ok {
			t.Fatal("the watch has ended")
		}
		if strings.Contains(e.text, router) {
			t.Errorf("a watch tells: %s", e.text)
		}
		if e.Type != "BOOKMARK" {
			events++
		}
	}

	ask(operator, "POST", "Bgps/h12", strings.ReplaceAll(with(router), "h9", "h12"), 200) // which stays

	// logins, and the services that verify them
	directory := ldaptest.Start(t, true)
	issuer := openidtest.Start(t)
	ask("proven:root", "PUT", directoryPath+"/", directoryBody(t, directory), 201)
	ask("proven:root", "PATCH", directoryPath+"/", `{"port":1}`, 200)
	ask("proven:root", "PUT", providerPath+"/", providerBody(t, issuer), 201)
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, path string) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return path == openidtest.TokenPath
	}})
	const code, verifier = "canary-of-a-code", "canary-of-a-verifier"
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, path string) bool {
		if path != openidtest.TokenPath {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_grant","code":%q}`, code)
		return true
	}})
	b.want("", "POST", openIDLoginPath+"/", shows(t, contivmodel.OpenIDProof{Code: code, Verifier: verifier, Nonce: "n", Redirect: "http://127.0.0.1/"}), 401, "invalid_grant")
	ask("proven:root", "POST", usersPath+"/", `{"username":"ann","password":"`+local+`"}`, 201)
	ask("proven:root", "PATCH", usersPath+"/ann/", `{"password":"`+strings.Repeat(local, 100)+`"}`, 400)
	tokens := []string{b.login("ann", local)}
	for _, login := range []string{`{"username":"ann","password":"` + local + `-wrong"}`, `{"username":"` + local + `/","password":"` + local + `"}`, `{"username":"eve","password":"` + local + `"}`} {
		ask("", "POST", logins.AuthPath+"/login/", login)
	}
	for _, path := range []string{usersPath, directoryPath, providerPath, tokensPath, logins.AuthPath + "/authorizations", mastercfg.JoinTokensPath, logins.WhoAmIPath} {
		ask("proven:root", "GET", path+"/", "")
	}
	var shown struct{ Token string }
	if err := json.Unmarshal([]byte(b.want("proven:root", "POST", tokensPath+"/", `{"name":"ci","role":"viewer","tenants":["*"]}`, 201, "token")), &shown); err != nil {
		t.Fatal(err)
	}
	tokens = append(tokens, shown.Token, operator)
	ask(shown.Token+"x", "GET", "tenants", "", 401)
	ask(shown.Token, "GET", "globals", "")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	audited.Run(ended)
	lines, err := os.ReadFile(path)
	if err != nil || len(lines) == 0 {
		t.Fatal(err)
	}
	places := map[string]string{"an answer": told.String(), "the audit log": string(lines), "the log": log.String()}
	for key, value := range storetest.Dump(b, b.db) {
		places["the store at "+key] = value
	}
	for place, text := range places {
		for _, canary := range append([]string{router, local, code, verifier, ldaptest.AccountPassword, openidtest.ClientSecret}, tokens...) {
			if strings.Contains(text, canary) || strings.Contains(text, canary[len(canary)-16:]) && strings.HasPrefix(canary, "ctv1_") {
				t.Errorf("%s holds %.12s...", place, canary)
			}
		}
	}
}
