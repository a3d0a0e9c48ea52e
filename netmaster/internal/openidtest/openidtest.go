// Package openidtest is an OpenID Connect provider of a test's own, with real keys. Its
// browsers are sent back at once: whoever asks is the person that Claims tells of.
package openidtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"golang.org/x/oauth2"
)

// By which it knows its client.
const (
	ClientID     = "contiv"
	ClientSecret = "canary-of-the-client"
)

// Issuer serves until the test ends. Change what it does by Set only.
type Issuer struct {
	URL         string
	Authorities string // PEM, by which its certificate is known

	mu    sync.Mutex
	does  Behaviour
	keys  []Key
	codes map[string]url.Values // what the browser was sent with, by code
	asked map[string]int        // requests by path
}

// Behaviour is what tests change. The zero value is proper.
type Behaviour struct {
	Claims  map[string]any                                // over those of a proper token
	Forge   func(payload string, key Key) string          // makes the token
	Replace func(w http.ResponseWriter, path string) bool // answers in place of the issuer
	Sent    func(path string, r *http.Request)            // sees requests
}

// Key signs tokens.
type Key struct {
	ID      string
	Private *ecdsa.PrivateKey
}

// Start serves on loopback, over TLS.
func Start(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{codes: map[string]url.Values{}, asked: map[string]int{}}
	i.NewKey(t, "k1")
	server := httptest.NewTLSServer(http.HandlerFunc(i.serve))
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.Authorities = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

// NewKey has it sign with another key, and show that only.
func (i *Issuer) NewKey(t testing.TB, id string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = []Key{{id, private}}
}

// Set changes what it does from now on.
func (i *Issuer) Set(does Behaviour) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.does = does
}

// Asked is how often a path was asked for.
func (i *Issuer) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// Paths of the issuer.
const (
	Discovery = "/.well-known/openid-configuration"
	AuthPath  = "/auth"
	TokenPath = "/token"
	KeysPath  = "/keys"
)

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // what is missing is refused
	i.mu.Lock()
	i.asked[r.URL.Path]++
	does, key := i.does, i.keys[0]
	i.mu.Unlock()
	if does.Sent != nil {
		does.Sent(r.URL.Path, r)
	}
	if does.Replace != nil && does.Replace(w, r.URL.Path) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case Discovery:
		answer(w, map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + AuthPath, "token_endpoint": i.URL + TokenPath, "jwks_uri": i.URL + KeysPath,
			"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}})
	case AuthPath:
		i.authorize(w, r)
	case TokenPath:
		i.token(w, r, does, key)
	case KeysPath:
		point, _ := key.Private.PublicKey.Bytes() // of a curve that has them
		answer(w, map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": key.ID,
			"x": encode(point[1:33]), "y": encode(point[33:])}}})
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) } // the client sees it

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// authorize sends the browser back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = r.Form
	i.mu.Unlock()
	back, err := url.Parse(r.Form.Get("redirect_uri"))
	if err != nil || r.Form.Get("client_id") != ClientID || r.Form.Get("response_type") != "code" || r.Form.Get("code_challenge_method") != "S256" {
		http.Error(w, "refused", http.StatusBadRequest)
		return
	}
	back.RawQuery = url.Values{"code": {code}, "state": {r.Form.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code, once.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request, does Behaviour, key Key) {
	i.mu.Lock()
	sent, there := i.codes[r.Form.Get("code")]
	delete(i.codes, r.Form.Get("code"))
	i.mu.Unlock()
	id, password, _ := r.BasicAuth()
	switch {
	case id != ClientID || password != ClientSecret:
		w.WriteHeader(http.StatusUnauthorized)
		answer(w, map[string]string{"error": "invalid_client"})
	case !there || sent.Get("redirect_uri") != r.Form.Get("redirect_uri") || oauth2.S256ChallengeFromVerifier(r.Form.Get("code_verifier")) != sent.Get("code_challenge"):
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]string{"error": "invalid_grant"})
	default:
		claims := map[string]any{"iss": i.URL, "aud": ClientID, "sub": "1", "preferred_username": "ann", "groups": []string{"net"}, "nonce": sent.Get("nonce"),
			"iat": time.Now().Unix(), "exp": time.Now().Add(5 * time.Minute).Unix()}
		maps.Copy(claims, does.Claims)
		payload, _ := json.Marshal(claims) // of texts and numbers
		forge := does.Forge
		if forge == nil {
			forge = Signed
		}
		answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": forge(string(payload), key)})
	}
}

// Signed is a proper token.
func Signed(payload string, key Key) string {
	return oidctest.SignIDToken(key.Private, key.ID, "ES256", payload)
}

// ByAnother is a token that another key has signed, which claims the name of the issuer's.
func ByAnother(payload string, key Key) string {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ""
	}
	return Signed(payload, Key{key.ID, private})
}

// Unsigned is a token that nobody has signed.
func Unsigned(payload string, _ Key) string {
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode([]byte(payload)) + "."
}

// Confused is a token with a code (HS256) for which the public key was taken as the secret.
func Confused(payload string, key Key) string {
	public, err := x509.MarshalPKIXPublicKey(crypto.PublicKey(&key.Private.PublicKey))
	if err != nil {
		return ""
	}
	signed := encode([]byte(`{"alg":"HS256","kid":"`+key.ID+`"}`)) + "." + encode([]byte(payload))
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil))
}
