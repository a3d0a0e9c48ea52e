package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/internal/ldaptest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

const netGroup = "cn=Net,ou=groups,dc=example,dc=org"

// directed returns a closed cluster that is configured with a directory that has Ann.
func directed(t *testing.T, change ...func(*Config)) (*bench, *ldaptest.Directory) {
	d := ldaptest.Start(t, true)
	d.Set("cn=Ann,"+ldaptest.Base, ldaptest.Entry{Name: "ann", Password: goodPassword, MemberOf: []string{netGroup}})
	b := secured(t, mastercfg.SecurityEnforced, append(change, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Keyring = keyring.In(t.TempDir())
	})...)
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

	// nor does it give roles of groups of an OpenID Connect provider
	b.want("proven:root", "POST", bindings, `{"principalName":"oidc:cn=net,dc=example","local":false,"role":"admin"}`, 201, "")
	d.Set("cn=Eve,"+ldaptest.Base, ldaptest.Entry{Name: "eve", Password: goodPassword, MemberOf: []string{"oidc:cn=net,dc=example", "OIDC:CN=net,DC=example"}})
	b.want(b.login("eve", goodPassword), "GET", logins.WhoAmIPath, "", 200, `"roles":[]`)

	for _, wrong := range [][2]string{{"ann", "another password"}, {"none", goodPassword}, {"*", goodPassword}} {
		b.want("", "POST", logins.AuthPath+"/login/", fmt.Sprintf(`{"username":%q,"password":%q}`, wrong[0], wrong[1]), 401, "Invalid username/password")
	}
	// sessions continue while the directory is away; a local user is looked up first
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

// A directory compares names without case: all spellings are one user, and no local user.
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

// A login with a wrong password of a directory user gets the same answer as any failed login, whatever the request
// contains, and is audited.
func TestBadLoginsOfADirectory(t *testing.T) {
	log := newAudited(t)
	var ahead atomic.Int64
	b, d := directed(t, log.of, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	d.Set("cn=Eve,"+ldaptest.Base, ldaptest.Entry{Name: "eve"}) // whose every bind but an empty one fails
	before := storetest.Dump(b, b.db)
	const nobody = "a name that nobody can have"
	for name, c := range map[string]struct {
		username, password string
		code               int
		about              string // empty: no account is named
	}{
		"wrong password":             {"ann", goodPassword + " ", 401, "ann"},
		"password of the account":    {"ann", ldaptest.AccountPassword, 401, "ann"},
		"empty password":             {"ann", "", 400, ""},
		"a password of zeros":        {"ann", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 401, "ann"},
		"a long password":            {"ann", strings.Repeat("a", accounts.MaxPassword+1), 401, "ann"},
		"10 MiB":                     {"ann", strings.Repeat("a", 10<<20), 413, ""},
		"unknown":                    {"none", goodPassword, 401, "none"},
		"nobody can be this one":     {"eve", goodPassword, 401, "eve"},
		"all":                        {"*", goodPassword, 401, nobody},
		"some":                       {"a*", goodPassword, 401, nobody},
		"one filter more":            {"ann)(cn=*", goodPassword, 401, nobody},
		"another filter":             {"*)(|(sAMAccountName=ann", goodPassword, 401, nobody},
		"a filter that is not whole": {"ann))", goodPassword, 401, nobody},
		"escaped":                    {`\61nn`, goodPassword, 401, nobody},
		"a zero":                     {"ann\x00", goodPassword, 401, nobody},
		"a DN":                       {"cn=Ann," + ldaptest.Base, goodPassword, 401, nobody},
	} {
		log.news()
		ahead.Add(int64(time.Hour)) // earlier guesses are forgotten: another test checks that wrong ones have to wait
		body := must(json.Marshal(map[string]string{"username": c.username, "password": c.password}))
		code, answer, _ := b.do("POST", logins.AuthPath+"/login/", string(body))
		var said struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &said); err != nil || code != c.code || code == 401 && said.Error != "Invalid username/password" ||
			strings.Contains(answer, goodPassword) || strings.Contains(answer, ldaptest.AccountPassword) {
			t.Errorf("%s: %d %.200s, want %d", name, code, answer, c.code)
		}
		if c.about == "" { // of those one in a while is told
			if entries := log.news(); len(entries) > 1 {
				t.Errorf("%s: %+v", name, entries)
			}
			continue
		}
		log.says(name, audit.Entry{Verb: "POST", Key: logins.AuthPath + "/login/", About: c.about, Decision: audit.Denied, Status: c.code, Reason: said.Error})
	}
	if !maps.Equal(before, storetest.Dump(b, b.db)) {
		t.Error("bad logins left something in the store")
	}
	for _, filter := range strings.Fields(strings.ReplaceAll(d.Asked(), "(objectClass=*)", "")) {
		if strings.Count(filter, "(") != 1 || strings.ContainsAny(filter, "*|&") {
			t.Errorf("filter %s", filter)
		}
	}
	if text := linesOf(t, log.log, log.path); strings.Contains(text, goodPassword) || strings.Contains(text, ldaptest.AccountPassword) {
		t.Error("a password is in the audit log")
	}
}

// A directory that does not answer delays only the logins that need it, and only for a time.
func TestADirectoryThatHangsKeepsNoOtherLoginWaiting(t *testing.T) {
	log := newAudited(t)
	var ahead atomic.Int64
	b, d := directed(t, log.of, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	ann := b.login("ann", goodPassword)
	b.want("proven:root", "POST", usersPath+"/", `{"username":"bob","password":"`+goodPassword+`"}`, 201, "")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var connected atomic.Int32
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			connected.Add(1)
		}
	}()
	log.news()

	const places = 16
	var waiting sync.WaitGroup
	var ended atomic.Int32
	hang := func(name string) {
		waiting.Go(func() {
			b.want("", "POST", logins.AuthPath+"/login/", `{"username":"`+name+`","password":"`+goodPassword+`"}`, 503, "the directory of users does not answer: local users can log in")
			ended.Add(1)
		})
	}
	d.Slow(time.Hour)
	for i := range places / 2 {
		hang(fmt.Sprintf("searched%d", i))
	}
	testkit.Eventually(t, 10*time.Second, "the directory is asked for them", func() bool { return strings.Count(d.Asked(), "searched") == places/2 })
	b.want("proven:root", "PATCH", directoryPath+"/", fmt.Sprintf(`{"port":%d}`, silent.Addr().(*net.TCPAddr).Port), 200, "")
	for i := range places / 2 {
		hang(fmt.Sprintf("greeted%d", i))
	}
	testkit.Eventually(t, 10*time.Second, "it is connected with for the others", func() bool { return connected.Load() == places/2 })
	ahead.Add(int64(time.Second)) // another second, in which this address may try as often again
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"late","password":"`+goodPassword+`"}`, 503, "the directory of users does not answer: local users can log in")
	// This login has no place in the queue, and does not wait. Logins that wait for the directory beyond their turn
	// are answered later.
	bob := b.login("bob", goodPassword)
	b.want(bob, "GET", logins.WhoAmIPath, "", 200, "user/bob")
	b.want(ann, "GET", logins.WhoAmIPath, "", 200, "user/ann")
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"bob","password":"wrong wrong wrong"}`, 401, "Invalid username/password")
	if n := ended.Load(); n == places {
		t.Error("all who waited for the directory had their answers first")
	}
	waiting.Wait()

	told := map[string]audit.Entry{}
	for _, e := range log.news() {
		if e.About != "late" {
			told[e.About] = e
		}
	}
	for i := range places / 2 {
		for _, name := range []string{fmt.Sprintf("searched%d", i), fmt.Sprintf("greeted%d", i)} {
			if e := told[name]; e.Verb != "POST" || e.Key != logins.AuthPath+"/login/" || e.Decision != audit.Allowed || e.Status != 503 || e.Revision != "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	d.Slow(0)
	b.want("proven:root", "PATCH", directoryPath+"/", fmt.Sprintf(`{"port":%d}`, d.Port), 200, "")
	b.login("ann", goodPassword)
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
