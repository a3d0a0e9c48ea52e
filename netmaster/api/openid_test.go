package api

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/oauth2"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/internal/ldaptest"
	"github.com/contiv/netplugin/netmaster/internal/openidtest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// provided returns a closed cluster that is configured with a provider of OpenID Connect.
func provided(t *testing.T, change ...func(*Config)) (*bench, *openidtest.Issuer) {
	issuer := openidtest.Start(t)
	b := secured(t, mastercfg.SecurityEnforced, append(change, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Keyring = keyring.In(t.TempDir())
	})...)
	b.want("", "GET", openIDPath+"/", "", 404, "no OpenID Connect provider")
	b.want("proven:root", "PUT", providerPath+"/", providerBody(t, issuer), 201, issuer.URL)
	return b, issuer
}

func providerBody(t *testing.T, issuer *openidtest.Issuer) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"issuer": issuer.URL, "client_id": openidtest.ClientID, "client_secret": openidtest.ClientSecret,
		"tls_ca": issuer.Authorities, "scopes": []string{"profile"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// browse returns the result of a browser that netctl sends to the provider.
func (b *bench) browse() contivmodel.OpenIDProof {
	b.Helper()
	var at contivmodel.OpenIDClient
	if err := json.Unmarshal([]byte(b.want("", "GET", openIDPath+"/", "", 200, `"scopes":["profile"]`)), &at); err != nil {
		b.Fatal(err)
	}
	proof := contivmodel.OpenIDProof{Verifier: oauth2.GenerateVerifier(), Nonce: "n1", Redirect: "http://127.0.0.1:8000/callback"}
	way := (&oauth2.Config{ClientID: at.ClientID, RedirectURL: proof.Redirect, Endpoint: oauth2.Endpoint{AuthURL: at.AuthURL}}).
		AuthCodeURL("s", oauth2.S256ChallengeOption(proof.Verifier), oauth2.SetAuthURLParam("nonce", proof.Nonce))
	browser := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // this does not test the browser
	defer browser.CloseIdleConnections()
	request, err := http.NewRequest("GET", way, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := browser.RoundTrip(request)
	if err != nil {
		b.Fatal(err)
	}
	resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		b.Fatal(err)
	}
	proof.Code = back.Query().Get("code")
	return proof
}

// shows returns netctl's request.
func shows(t *testing.T, proof contivmodel.OpenIDProof) string {
	t.Helper()
	body, err := json.Marshal(proof)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestUsersOfAProviderLogIn(t *testing.T) {
	b, issuer := provided(t)
	login := func() string {
		t.Helper()
		var said struct{ Token string }
		if err := json.Unmarshal([]byte(b.want("", "POST", openIDLoginPath+"/", shows(t, b.browse()), 200, "token")), &said); err != nil {
			t.Fatal(err)
		}
		return said.Token
	}
	token := login()
	b.want(token, "GET", logins.WhoAmIPath, "", 200, `"identity":"user/oidc:ann","mode":"enforced","roles":[]`)
	b.want(token, "GET", "networks", "", 200, "[]")
	bindings := logins.AuthPath + "/authorizations/"
	b.want("proven:root", "POST", bindings, `{"principalName":"net","local":false,"role":"admin"}`, 201, "") // another group
	b.want(token, "GET", "globals", "", 403, "")
	b.want("proven:root", "POST", bindings, `{"principalName":"oidc:net","local":false,"role":"ops","tenantName":"blue"}`, 201, "")
	b.want(token, "GET", "networks", "", 200, "blue:web") // at once
	b.want(token, "GET", "networks/red:web", "", 403, "")
	// a local user of the name is another person, and so is one of a directory
	b.want("proven:root", "POST", usersPath+"/", `{"username":"ann","password":"`+goodPassword+`"}`, 201, "")
	b.want(token, "GET", usersPath+"/ann/", "", 403, "")
	b.want(token, "PATCH", usersPath+"/ann/", `{"password":"taken over now"}`, 403, "")
	issuer.Set(openidtest.Behaviour{Claims: map[string]any{"preferred_username": "bob", "groups": []string{"a=B", "x"}}})
	bob := login()
	b.want("proven:root", "POST", bindings, `{"principalName":"oidc:A=b","local":false,"role":"admin"}`, 201, "") // is compared letter by letter
	b.want(bob, "GET", "networks", "", 200, "[]")
	// sessions continue while the provider is away, and end by logout
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, _ string) bool { w.WriteHeader(502); return true }})
	b.want(token, "GET", "networks", "", 200, "blue:web")
	b.want(token, "POST", logins.AuthPath+"/logout/", "", 204, "")
	b.want(token, "GET", logins.WhoAmIPath, "", 401, "")
	b.want("proven:root", "DELETE", providerPath+"/", "", 204, "")
	b.want("", "GET", openIDPath+"/", "", 404, "")
	b.want(bob, "GET", logins.WhoAmIPath, "", 200, "oidc:bob")
}

func TestBadLoginsOfAProvider(t *testing.T) {
	log := newAudited(t)
	b, issuer := provided(t, log.of)
	path := openIDLoginPath + "/"
	line := func(about, reason string, status int) audit.Entry {
		e := audit.Entry{Verb: "POST", Key: path, About: about, Decision: audit.Denied, Status: status, Reason: reason}
		if status == 200 {
			e.Decision = audit.Allowed
		}
		return e
	}
	somebody := "somebody of " + issuer.URL
	log.news()
	good := b.browse()
	for name, change := range map[string]func(*contivmodel.OpenIDProof){
		"no code": func(p *contivmodel.OpenIDProof) { p.Code = "" }, "no verifier": func(p *contivmodel.OpenIDProof) { p.Verifier = "" },
		"a long code":           func(p *contivmodel.OpenIDProof) { p.Code = strings.Repeat("c", 4096+1) },
		"back to somebody else": func(p *contivmodel.OpenIDProof) { p.Redirect = "http://192.0.2.1/callback" }, "https": func(p *contivmodel.OpenIDProof) { p.Redirect = "https://127.0.0.1/callback" },
		"a name that looks so": func(p *contivmodel.OpenIDProof) { p.Redirect = "http://localhost.example.org/callback" },
	} {
		proof := good
		change(&proof)
		if answer := b.want("", "POST", path, shows(t, proof), 400, "want"); strings.Contains(answer, good.Verifier) {
			t.Errorf("%s: the answer shows what was sent: %s", name, answer)
		}
	}
	b.want("", "POST", path, "{", 400, `"error"`)
	log.says("logins that nobody is asked about", audit.Entry{Verb: "POST", Key: path, Decision: audit.Allowed, Status: 400}) // the first of them
	before := storetest.Dump(b, b.db)
	issuer.Set(openidtest.Behaviour{Forge: openidtest.Confused})
	for range 2 * freeOfOneSource {
		b.want("", "POST", path, shows(t, b.browse()), 401, "HS256")
		log.says("confused", line(somebody, "HS256", 401))
	}
	wrong := good
	wrong.Code = "nobody's"
	for range freeOfOneSource {
		b.want("", "POST", path, shows(t, wrong), 401, "")
		log.says("another code", line(somebody, issuer.URL, 401))
	}
	b.want("", "POST", path, shows(t, wrong), 429, "wait")
	if len(storetest.Dump(b, b.db)) != len(before) {
		t.Error("bad logins left something in the store")
	}
	issuer.Set(openidtest.Behaviour{})
	log.news()
	b.want("", "POST", path, shows(t, b.browse()), 200, "token") // from the same address
	log.says("a good one", line("oidc:ann", "", 200))
	b.want("", "POST", logins.AuthPath+"/login/", `{"username":"oidc:ann","password":"`+goodPassword+`"}`, 401, "Invalid username/password")
	log.says("a password", audit.Entry{Verb: "POST", Key: logins.AuthPath + "/login/", About: "a name that nobody can have", Decision: audit.Denied, Status: 401, Reason: "Invalid username/password"})
}

// Logins at a provider that does not answer neither block users of the directory nor fill the log.
func TestAProviderThatHangsIsNobodyElsesTrouble(t *testing.T) {
	log, told := logtest.NewNullLogger()
	issuer, d := openidtest.Start(t), ldaptest.Start(t, true)
	d.Set("cn=Ann,"+ldaptest.Base, ldaptest.Entry{Name: "ann", Password: goodPassword})
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Keyring, c.Log = keyring.In(t.TempDir()), log.WithField("component", "api")
	})
	b.want("proven:root", "PUT", directoryPath+"/", directoryBody(t, d), 201, "")
	b.want("proven:root", "PUT", providerPath+"/", providerBody(t, issuer), 201, "")
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, _ string) bool { <-released; w.WriteHeader(502); return true }})
	var asking sync.WaitGroup
	for range 2 * outsideAtOnce {
		asking.Go(func() { b.want("", "GET", openIDPath+"/", "", 503, "local users can log in") })
	}
	var waited, refused atomic.Int64
	for i := range outsideAtOnce + 1 {
		asking.Go(func() { b.loginOf(i, &waited, &refused) })
	}
	testkit.Eventually(t, 10*time.Second, "the provider has places left, or is not asked", func() bool {
		return refused.Load() == 1 && issuer.Asked(openidtest.Discovery) > 0
	})
	b.login("ann", goodPassword)
	release()
	asking.Wait()
	if waited.Load() != outsideAtOnce {
		t.Errorf("%d logins have waited for the provider", waited.Load())
	}
	warnings := 0
	for _, line := range told.AllEntries() {
		if line.Level <= logrus.WarnLevel {
			warnings++
		}
	}
	if asked := issuer.Asked(openidtest.Discovery); asked != 1 || warnings != 1 {
		t.Errorf("the provider was asked %d times, the log has %d warnings", asked, warnings)
	}
}

// While the provider does not answer, few requests wait for it: the others are refused at once, and keep no
// connection.
func TestFewWaitToHearWhereToLogIn(t *testing.T) {
	const few = 64
	b, issuer := provided(t)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, _ string) bool { <-released; w.WriteHeader(502); return true }})
	var refused, told atomic.Int64
	var asking sync.WaitGroup
	for range 2 * few {
		asking.Go(func() {
			code, answer, headers := b.do("GET", openIDPath+"/", "", "Accept", fault.ProblemType)
			switch {
			case code != http.StatusServiceUnavailable || headers.Get("Retry-After") == "":
				t.Errorf("%d %s %v", code, answer, headers)
			case strings.Contains(answer, "too many logins"):
				refused.Add(1)
			default:
				told.Add(1)
			}
		})
	}
	testkit.Eventually(t, 4*time.Second, "the others are refused", func() bool { return refused.Load() == few })
	release()
	asking.Wait()
	if told.Load() != few {
		t.Errorf("%d have waited", told.Load())
	}
}

// freeOfOneSource is the number of logins without a delay, outsideAtOnce the limit of concurrent logins at the
// provider.
const freeOfOneSource, outsideAtOnce = 5, 16

// loginOf is the i-th login while the provider hangs, with a code and an address of its own: it waits until the
// provider times out, or is refused at once.
func (b *bench) loginOf(i int, waited, refused *atomic.Int64) {
	b.Helper()
	proof := fmt.Sprintf(`{"code":"c%d","verifier":"v","nonce":"n","redirect_uri":"http://127.0.0.1/callback"}`, i)
	r, w := httptest.NewRequest("POST", openIDLoginPath+"/", strings.NewReader(proof)), httptest.NewRecorder()
	r.RemoteAddr = fmt.Sprintf("127.0.0.%d:40000", 2+i)
	b.api.ServeHTTP(w, r)
	switch answer := w.Body.String(); {
	case w.Code == http.StatusServiceUnavailable && strings.Contains(answer, "local users can log in"):
		waited.Add(1)
	case w.Code == http.StatusServiceUnavailable && strings.Contains(answer, "too many logins"):
		refused.Add(1)
	default:
		b.Errorf("login %d: %d %s", i, w.Code, answer)
	}
}

// A login that fails for want of a place does not count as a wrong one.
func TestOurOwnTroubleIsNoWrongLogin(t *testing.T) {
	b, issuer := provided(t)
	proof := b.browse()
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, _ string) bool { <-released; w.WriteHeader(502); return true }})
	var waited, refused atomic.Int64
	var asking sync.WaitGroup
	for i := range outsideAtOnce + 1 {
		asking.Go(func() { b.loginOf(i, &waited, &refused) })
	}
	testkit.Eventually(t, 10*time.Second, "all places are taken", func() bool { return refused.Load() == 1 })
	for range 2 * freeOfOneSource {
		b.want("", "POST", openIDLoginPath+"/", shows(t, proof), 503, "too many logins")
	}
	release()
	asking.Wait()
	if waited.Load() != outsideAtOnce {
		t.Errorf("%d logins have waited for the provider", waited.Load())
	}
	issuer.Set(openidtest.Behaviour{})
	b.want("proven:root", "DELETE", providerPath+"/", "", 204, "")
	for range 2 * freeOfOneSource {
		b.want("", "POST", openIDLoginPath+"/", shows(t, proof), 404, "no OpenID Connect provider")
	}
	b.want("proven:root", "PUT", providerPath+"/", providerBody(t, issuer), 201, "")
	b.want("", "POST", openIDLoginPath+"/", shows(t, proof), 200, "token")
}

func TestTheProviderIsConfigured(t *testing.T) {
	b, issuer := provided(t)
	for key, value := range storetest.Dump(b, b.db) {
		if strings.Contains(value, openidtest.ClientSecret) {
			t.Errorf("the secret is in the store: %s", key)
		}
	}
	answer := b.want("proven:root", "GET", providerPath+"/", "", 200, `"username_claim":"preferred_username","groups_claim":"groups"`)
	if strings.Contains(answer, "client_secret") || strings.Contains(answer, "enc:v1") {
		t.Errorf("the secret is shown: %s", answer)
	}
	// a change keeps the fields that it does not name
	b.want("proven:root", "PATCH", providerPath+"/", `{"groups_claim":"roles"}`, 200, `"groups_claim":"roles"`)
	issuer.Set(openidtest.Behaviour{Claims: map[string]any{"roles": []string{"x"}, "groups": nil}})
	b.want("", "POST", openIDLoginPath+"/", shows(t, b.browse()), 200, "token")
	good := providerBody(t, issuer)
	for _, bad := range [][2]string{{issuer.URL, "http://example.org"}, {issuer.URL, "https://u:p@example.org"}, {issuer.URL, "https://example.org/?a=b"}, {`"client_id":"contiv"`, `"client_id":""`},
		{`["profile"]`, `[""]`}, {`"tls_ca":"-----BEGIN`, `"tls_ca":"`}, {`"client_id":"contiv"`, `"client_id":1`}} {
		b.want("proven:root", "PUT", providerPath+"/", strings.Replace(good, bad[0], bad[1], 1), 400, `"error"`)
	}
	// invalid answers, or none, cost the login only
	proof := b.browse()
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, _ string) bool { w.WriteHeader(500); return true }})
	b.want("", "POST", openIDLoginPath+"/", shows(t, proof), 503, "local users can log in")
	b.want("proven:root", "PATCH", providerPath+"/", `{"issuer":"https://127.0.0.1:1"}`, 200, "")
	b.want("", "GET", openIDPath+"/", "", 503, "local users can log in")
	b.want("proven:root", "DELETE", providerPath+"/", "", 204, "")
	for _, method := range []string{"DELETE", "GET", "PATCH"} {
		b.want("proven:root", method, providerPath+"/", "{}", 404, "no OpenID Connect provider")
	}
}
