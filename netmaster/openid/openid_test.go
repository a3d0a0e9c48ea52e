package openid

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/contiv/netplugin/netmaster/internal/openidtest"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

const redirect = "http://127.0.0.1:8000/callback"

// configured is how a test's issuer is reached.
func configured(i *openidtest.Issuer) Config {
	return Config{Issuer: i.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, Authorities: i.Authorities,
		NameClaim: "preferred_username", GroupsClaim: "groups"}
}

// asking is a provider with its issuer, and a clock.
func asking(t *testing.T, change func(*Config)) (*Provider, *openidtest.Issuer, *time.Duration) {
	t.Helper()
	issuer, ahead := openidtest.Start(t), new(time.Duration)
	config := configured(issuer)
	if change != nil {
		change(&config)
	}
	p, err := New(config, func() time.Time { return time.Now().Add(*ahead) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, issuer, ahead
}

// browse is the way of a browser to the issuer and back.
func browse(t *testing.T, p *Provider) Proof {
	t.Helper()
	at, err := p.AuthURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proof := Proof{Verifier: oauth2.GenerateVerifier(), Redirect: redirect, Nonce: "n1"}
	way := (&oauth2.Config{ClientID: p.config.ClientID, RedirectURL: redirect, Endpoint: oauth2.Endpoint{AuthURL: at}}).
		AuthCodeURL("s1", oauth2.S256ChallengeOption(proof.Verifier), oidc.Nonce(proof.Nonce))
	browser := &http.Client{Transport: p.client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(way)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Query().Get("state") != "s1" {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	proof.Code = back.Query().Get("code")
	return proof
}

func TestAProviderSaysWhoItIs(t *testing.T) {
	p, issuer, ahead := asking(t, nil)
	for range 3 {
		who, err := p.Person(t.Context(), browse(t, p))
		if err != nil || who.Name != "oidc:ann" || !slices.Equal(who.Groups, []string{"oidc:net"}) {
			t.Fatalf("%+v, %v", who, err)
		}
	}
	if n, m := issuer.Asked(openidtest.Discovery), issuer.Asked(openidtest.KeysPath); n != 1 || m != 1 {
		t.Errorf("asked %d times for what it says of itself, %d times for its keys", n, m)
	}
	// another key is fetched at once, and the configuration again after its time
	issuer.NewKey(t, "k2")
	if _, err := p.Person(t.Context(), browse(t, p)); err != nil {
		t.Error(err)
	}
	*ahead = 8 * time.Minute // what the clocks may differ
	if _, err := p.Person(t.Context(), browse(t, p)); err != nil {
		t.Error(err)
	}
	*ahead = keptFor + time.Minute
	if _, err := p.AuthURL(t.Context()); err != nil || issuer.Asked(openidtest.Discovery) != 2 {
		t.Errorf("asked %d times after an hour, %v", issuer.Asked(openidtest.Discovery), err)
	}
}

func TestATokenThatIsNotOneIsRefused(t *testing.T) {
	p, issuer, _ := asking(t, nil)
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	claims := func(of ...any) openidtest.Behaviour {
		all := map[string]any{}
		for i := 0; i < len(of); i += 2 {
			all[of[i].(string)] = of[i+1]
		}
		return openidtest.Behaviour{Claims: all}
	}
	many := make([]string, mostGroups+1)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	for name, c := range map[string]struct {
		does openidtest.Behaviour
		part string
	}{
		"nobody has signed it":     {openidtest.Behaviour{Forge: openidtest.Unsigned}, "none"},
		"key confusion":            {openidtest.Behaviour{Forge: openidtest.Confused}, "HS256"},
		"another key":              {openidtest.Behaviour{Forge: openidtest.ByAnother}, "signature"},
		"no token":                 {openidtest.Behaviour{Forge: func(string, openidtest.Key) string { return "" }}, "no ID token"},
		"half a token":             {openidtest.Behaviour{Forge: func(p string, k openidtest.Key) string { return openidtest.Signed(p, k)[:40] }}, "malformed"},
		"another issuer":           {claims("iss", "https://example.org"), "different provider"},
		"another audience":         {claims("aud", "somebody"), "audience"},
		"audiences, another party": {claims("aud", []string{openidtest.ClientID, "x"}, "azp", "x"), `client "x"`},
		"of two hours before":      {claims("iat", at(-2*time.Hour), "exp", at(time.Hour)), "clocks"},
		"of two hours after":       {claims("iat", at(2*time.Hour), "exp", at(3*time.Hour)), "clocks"},
		"expired":                  {claims("exp", at(-11*time.Minute)), "expired"},
		"without an end":           {claims("exp", 0), "expired"},
		"not yet":                  {claims("nbf", at(time.Hour)), "not good yet"},
		"not in this world":        {claims("nbf", 1e300), "not good yet"},
		"another login":            {claims("nonce", "n2"), "another login"},
		"no nonce":                 {claims("nonce", ""), "another login"},
		"no name":                  {claims("preferred_username", nil), "no name"},
		"a name that is none":      {claims("preferred_username", 7), "no name"},
		"a name with a line":       {claims("preferred_username", "ann\nbob"), "characters"},
		"a name of broken bytes": {openidtest.Behaviour{Forge: func(p string, k openidtest.Key) string {
			return openidtest.Signed(strings.Replace(p, `"ann"`, "\"an\xff\"", 1), k)
		}}, "characters"},
		"a long name":                {claims("preferred_username", strings.Repeat("a", longestName+1)), "bytes"},
		"groups that are none":       {claims("groups", map[string]int{"a": 1}), "want a list"},
		"a group without a name":     {claims("groups", []string{""}), "1 to"},
		"a group with a long name":   {claims("groups", []string{strings.Repeat("g", longestGroup+1)}), "1 to"},
		"more groups than are taken": {claims("groups", many), "the limit"},
	} {
		issuer.Set(c.does)
		who, err := p.Person(t.Context(), browse(t, p))
		if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), c.part) || who.Name != "" {
			t.Errorf("%s: %+v, %v; want %q", name, who, err, c.part)
		}
	}
	issuer.Set(openidtest.Behaviour{})
	good := browse(t, p)
	for name, change := range map[string]func(*Proof){
		"another code": func(p *Proof) { p.Code = "x" }, "another verifier": func(p *Proof) { p.Verifier = oauth2.GenerateVerifier() },
		"another way back": func(p *Proof) { p.Redirect = "http://127.0.0.1:8001/callback" },
	} {
		proof := browse(t, p)
		change(&proof)
		if _, err := p.Person(t.Context(), proof); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Person(t.Context(), good); err != nil {
		t.Error(err)
	}
	if _, err := p.Person(t.Context(), good); !fault.Is(err, fault.Denied) {
		t.Errorf("a code that was used: %v", err)
	}
}

func TestClaimsMayHaveOtherNamesAndForms(t *testing.T) {
	p, issuer, _ := asking(t, func(c *Config) { c.NameClaim, c.GroupsClaim = "email", "roles" })
	for _, c := range []struct {
		claims map[string]any
		groups []string
		denied bool
	}{
		{map[string]any{"email": "ann@example.org", "email_verified": true}, nil, false},
		{map[string]any{"email": "ann@example.org", "email_verified": true, "roles": "one"}, []string{"oidc:one"}, false},
		{map[string]any{"email": "ann@example.org", "email_verified": "true", "roles": []string{"b", "a", "b"}}, []string{"oidc:a", "oidc:b"}, false},
		{map[string]any{"email": "ann@example.org", "email_verified": false}, nil, true},
		{map[string]any{"email": "ann@example.org"}, nil, true},
	} {
		issuer.Set(openidtest.Behaviour{Claims: c.claims})
		who, err := p.Person(t.Context(), browse(t, p))
		if c.denied != (err != nil) || !c.denied && (who.Name != "oidc:ann@example.org" || !slices.Equal(who.Groups, c.groups)) {
			t.Errorf("%v: %+v, %v", c.claims, who, err)
		}
	}
}

// A faulty provider makes the login fail, nothing else, and no secret is shown.
func TestAProviderThatDoesNotAnswerProperly(t *testing.T) {
	p, issuer, ahead := asking(t, nil)
	long := strings.Repeat("x", 2*mostBytes)
	elsewhere := func(field string) func(http.ResponseWriter, string) bool {
		return func(w http.ResponseWriter, path string) bool {
			if path != openidtest.Discovery {
				return false
			}
			said := map[string]string{"issuer": issuer.URL, "authorization_endpoint": issuer.URL + "/auth", "token_endpoint": issuer.URL + "/token", "jwks_uri": issuer.URL + "/keys"}
			said[field] = "http://example.org/"
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q}`, said["issuer"], said["authorization_endpoint"], said["token_endpoint"], said["jwks_uri"])
			return true
		}
	}
	at := func(where string, answer func(http.ResponseWriter)) func(http.ResponseWriter, string) bool {
		return func(w http.ResponseWriter, path string) bool {
			if path == where {
				answer(w)
			}
			return path == where
		}
	}
	for name, c := range map[string]struct {
		replace func(http.ResponseWriter, string) bool
		part    string
	}{
		"says little":                 {at(openidtest.Discovery, func(w http.ResponseWriter) { fmt.Fprint(w, "{}") }), ""},
		"says much":                   {at(openidtest.Discovery, func(w http.ResponseWriter) { fmt.Fprint(w, long) }), "more than"},
		"says nonsense":               {at(openidtest.Discovery, func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }), ""},
		"is another":                  {elsewhere("issuer"), "did not match"},
		"has a plain token path":      {elsewhere("token_endpoint"), "no https URL"},
		"has plain keys":              {elsewhere("jwks_uri"), "no https URL"},
		"sends elsewhere":             {at(openidtest.Discovery, func(w http.ResponseWriter) { w.Header().Set("Location", "/x"); w.WriteHeader(302) }), "redirects"},
		"fails":                       {at(openidtest.TokenPath, func(w http.ResponseWriter) { http.Error(w, "broken", 500) }), "500"},
		"sends the secret on":         {at(openidtest.TokenPath, func(w http.ResponseWriter) { w.Header().Set("Location", "/x"); w.WriteHeader(307) }), "redirects"},
		"has keys without an end":     {at(openidtest.KeysPath, func(w http.ResponseWriter) { fmt.Fprint(w, long) }), "more than"},
		"does not tell its keys":      {at(openidtest.KeysPath, func(w http.ResponseWriter) { http.Error(w, "broken", 500) }), "500"},
		"sends for keys to elsewhere": {at(openidtest.KeysPath, func(w http.ResponseWriter) { w.Header().Set("Location", "/x"); w.WriteHeader(302) }), "redirects"},
		"knows the client no more": {at(openidtest.TokenPath, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(401)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
		}), "invalid_client"},
	} {
		issuer.Set(openidtest.Behaviour{})
		fresh, err := New(p.config, p.now)
		if err != nil {
			t.Fatal(err)
		}
		proof := browse(t, p) // before the fault
		issuer.Set(openidtest.Behaviour{Replace: c.replace})
		_, err = fresh.Person(t.Context(), proof)
		fresh.Close()
		if err == nil || !strings.Contains(err.Error(), c.part) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want %q", name, err, c.part)
		}
		if err != nil && (strings.Contains(err.Error(), openidtest.ClientSecret) || strings.Contains(err.Error(), proof.Code) || strings.Contains(err.Error(), proof.Verifier) || len(err.Error()) > 500) {
			t.Errorf("%s: the error says too much: %v", name, err)
		}
	}
	*ahead = 0
	// a request without an answer ends with its client
	issuer.Set(openidtest.Behaviour{})
	proof := browse(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan struct{})
	issuer.Set(openidtest.Behaviour{Replace: func(http.ResponseWriter, string) bool { cancel(); <-released; return true }})
	if _, err := p.Person(ctx, proof); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one that never answers: %v", err)
	}
	close(released)
}

// Any client may begin a login: that costs the provider one request at a time, and few while it is away.
func TestAProviderIsAskedOnceAtATime(t *testing.T) {
	p, issuer, ahead := asking(t, nil)
	const many = 50
	all := func(ctx context.Context) (failed int) {
		errs := make(chan error, many)
		for range many {
			go func() { _, err := p.AuthURL(ctx); errs <- err }()
		}
		for range many {
			if <-errs != nil {
				failed++
			}
		}
		return failed
	}
	issuer.Set(openidtest.Behaviour{Replace: func(w http.ResponseWriter, _ string) bool { w.WriteHeader(502); return true }})
	for i := range 3 {
		if failed, asked := all(t.Context()), issuer.Asked(openidtest.Discovery); failed != many || asked != 1 {
			t.Errorf("round %d while it is away: %d fail, it was asked %d times", i, failed, asked)
		}
	}
	*ahead = failedFor
	if all(t.Context()); issuer.Asked(openidtest.Discovery) != 2 {
		t.Errorf("after %s it was asked %d times", *ahead, issuer.Asked(openidtest.Discovery))
	}
	issuer.Set(openidtest.Behaviour{})
	*ahead += failedFor
	gone, cancel := context.WithCancel(t.Context()) // a client that has gone is no failure of the provider
	cancel()
	if failed := all(gone); failed != 0 || issuer.Asked(openidtest.Discovery) != 3 {
		t.Errorf("once it is back: %d fail, it was asked %d times", failed, issuer.Asked(openidtest.Discovery))
	}
}

func TestTheSecretIsNotPrinted(t *testing.T) {
	c := Config{Issuer: "https://example.org", ClientSecret: openidtest.ClientSecret}
	if text := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, openidtest.ClientSecret) || !strings.Contains(text, secret.Shown) {
		t.Error(text)
	}
	p, err := New(c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s %x", p, p, p, p, p); text != strings.TrimSpace(strings.Repeat("https://example.org ", 5)) {
		t.Error(text)
	}
	if _, err := New(Config{Authorities: "no PEM"}, time.Now); !fault.Is(err, fault.Invalid) {
		t.Errorf("authorities that are none: %v", err)
	}
}
