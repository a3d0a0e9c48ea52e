package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/internal/ldaptest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

const netGroup = "cn=Net,ou=groups,dc=example,dc=org"

// directed is a closed cluster that knows a directory with Ann.
func directed(t *testing.T) (*bench, *ldaptest.Directory) {
	d := ldaptest.Start(t, true)
	d.Set("cn=Ann,"+ldaptest.Base, ldaptest.Entry{Name: "ann", Password: goodPassword, MemberOf: []string{netGroup}})
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Keyring = keyring.In(t.TempDir())
	})
	b.want("proven:root", "PUT", directoryPath+"/", directoryBody(t, d), 201, `"server":"127.0.0.1"`)
	return b, d
}

func directoryBody(t *testing.T, d *ldaptest.Directory) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"server": "127.0.0.1", "port": d.Port, "base_dn": ldaptest.Base, "service_account_dn": ldaptest.Account,
		"service_account_password": ldaptest.AccountPassword, "start_tls": true, "insecure_skip_verify": false, "tls_cert_issued_to": "", "tls_ca": d.Authorities})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestUsersOfADirectoryLogIn(t *testing.T) {
	b, d := directed(t)
	token := b.login("ann", goodPassword)
	b.want(token, "GET", logins.WhoAmIPath, "", 200, `"identity":"user/ann","mode":"enforced","roles":[]`)
	b.want(token, "GET", "networks", "", 200, "[]")
	// roles of groups count at once; their names are compared as a directory does
	bindings := logins.AuthPath + "/authorizations/"
	var bound boundRole
	answer := b.want("proven:root", "POST", bindings, `{"principalName":"CN=net, OU=Groups,dc=example,dc=org","local":false,"role":"ops","tenantName":"blue"}`, 201, "")
	if err := json.Unmarshal([]byte(answer), &bound); err != nil {
		t.Fatal(err)
	}
	b.want(token, "GET", "networks", "", 200, "blue:web")
	b.want(token, "GET", "networks/red:web", "", 403, "")
	b.want("proven:root", "DELETE", bindings+bound.ID+"/", "", 204, "")
	b.want(token, "GET", "networks", "", 200, "[]")

	for _, wrong := range [][2]string{{"ann", "another password"}, {"none", goodPassword}, {"*", goodPassword}} {
		b.want("", "POST", logins.AuthPath+"/login/", fmt.Sprintf(`{"username":%q,"password":%q}`, wrong[0], wrong[1]), 401, "Invalid username/password")
	}
	// sessions go on while the directory is away; a local user is found before
	b.want("proven:root", "POST", usersPath+"/", `{"username":"ann","password":"a local password"}`, 201, "")
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"ann","password":"`+goodPassword+`"}`, 401, "")
	local := b.login("ann", "a local password")
	b.want(token, "PATCH", usersPath+"/ann/", `{"password":"taken over now"}`, 403, "") // it is another ann
	b.want(token, "GET", usersPath+"/ann/", "", 403, "")
	b.want(local, "GET", usersPath+"/ann/", "", 200, `"username":"ann"`)
	d.Set("cn=Bob,"+ldaptest.Base, ldaptest.Entry{Name: "bob", Password: goodPassword})
	b.want("proven:root", "PATCH", directoryPath+"/", `{"port":1}`, 200, `"port":1`)
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"bob","password":"`+goodPassword+`"}`, 503, "local users can log in")
	b.want(token, "GET", logins.WhoAmIPath, "", 200, "user/ann")
	b.want("proven:root", "DELETE", logins.AuthPath+"/sessions/nobody/", "", 200, `"ended":0`)
	b.want("proven:root", "DELETE", logins.AuthPath+"/sessions/ann/", "", 200, `"ended":2`) // he has left, and is in no directory any more
	b.want(local, "GET", logins.WhoAmIPath, "", 401, "")
	b.want(token, "GET", logins.WhoAmIPath, "", 401, "")
}

// A directory compares names without their case: all spellings of one are one user, and are no local user's.
func TestAUserOfADirectoryIsOneInAllSpellings(t *testing.T) {
	b, d := directed(t)
	b.want(b.login("Ann", goodPassword), "GET", logins.WhoAmIPath, "", 200, `"identity":"user/ann"`)
	b.want("proven:root", "POST", usersPath+"/", `{"username":"ann","password":"a local password","disable":true}`, 201, "")
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"Ann","password":"`+goodPassword+`"}`, 401, "Invalid username/password")
	d.Set("cn=Bob,"+ldaptest.Base, ldaptest.Entry{Name: "bob", Password: goodPassword})
	for _, name := range []string{"bob", "Bob", "bOb", "boB", "BOb"} {
		b.want("", "POST", logins.AuthPath+"/login/", `{"username":"`+name+`","password":"another password"}`, 401, "Invalid username/password")
	}
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"BOB","password":"another password"}`, 429, "wait")
}

func TestTheDirectoryIsConfigured(t *testing.T) {
	b, d := directed(t)
	for _, value := range storetest.Dump(b, b.db) {
		if strings.Contains(value, ldaptest.AccountPassword) {
			t.Errorf("the password is in the store: %s", value)
		}
	}
	if stored := record[mastercfg.Directory](b, mastercfg.DirectoryKey).Password; !strings.HasPrefix(stored, "enc:v1:") {
		t.Errorf("stored: %s", stored)
	}
	answer := b.want("proven:root", "GET", directoryPath+"/", "", 200, `"user_attribute":"sAMAccountName"`)
	if strings.Contains(answer, "service_account_password") || strings.Contains(answer, "enc:v1") {
		t.Errorf("the password is shown: %s", answer)
	}
	good := directoryBody(t, d)
	for _, bad := range [][2]string{{`"port":` + fmt.Sprint(d.Port), `"port":0`}, {`"server":"127.0.0.1"`, `"server":""`}, {`"service_account_password":"` + ldaptest.AccountPassword + `",`, ""},
		{`"start_tls":true`, `"start_tls":true,"user_attribute":"x)(y"`}} {
		b.want("proven:root", "PUT", directoryPath+"/", strings.Replace(good, bad[0], bad[1], 1), 400, `"error"`)
	}
	kept := record[mastercfg.Directory](b, mastercfg.DirectoryKey).Password
	b.want("proven:root", "PUT", directoryPath+"/", strings.Replace(good, ldaptest.AccountPassword, "", 1), 400, "service_account_password")
	b.want("proven:root", "PATCH", directoryPath+"/", `{"service_account_password":""}`, 400, "service_account_password")
	if now := record[mastercfg.Directory](b, mastercfg.DirectoryKey).Password; now != kept {
		t.Errorf("the password has changed: %s", now)
	}
	b.want("proven:root", "DELETE", directoryPath+"/", "", 204, "")
	b.want("proven:root", "DELETE", directoryPath+"/", "", 404, "")
	b.want("proven:root", "PATCH", directoryPath+"/", `{"port":1}`, 404, "")
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"ann","password":"`+goodPassword+`"}`, 401, "Invalid username/password")
}
