// Package openidtest is an OpenID Connect provider for a test, with real keys. It redirects browsers back at once,
// and every user is the person of Claims.
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

// The credentials of its client.
const (
	ClientID     = "contiv"
	ClientSecret = "canary-of-the-client"
)

// Issuer serves until the test ends. Change its behaviour only by Set.
type Issuer struct {
	URL         string
	Authorities string // PEM, the CA of its certificate

	mu    sync.Mutex
	does  Behaviour
	keys  []Key
	codes map[string]url.Values // parameters of the authorization request, by code
	asked map[string]int        // requests by path
}

// Behaviour is what tests change. The zero value conforms to the standard.
type Behaviour struct {
	Claims  map[string]any                                // added to those of a correct token, or in their place
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

// NewKey makes the issuer sign with a new key, and publish only that.
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

// Set changes the behaviour from now on.
func (i *Issuer) Set(does Behaviour) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.does = does
}

// Asked returns the number of requests for a path.
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
	_ = r.ParseForm() // missing parameters are refused
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
		point, _ := key.Private.PublicKey.Bytes() // the curve of the key has them
		answer(w, map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": key.ID,
			"x": encode(point[1:33]), "y": encode(point[33:])}}})
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) } // the client reports a failure

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// authorize redirects the browser back with a code.
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
		payload, _ := json.Marshal(claims) // only strings and numbers
		forge := does.Forge
		if forge == nil {
			forge = Signed
		}
		answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": forge(string(payload), key)})
	}
}

// Signed returns a correct token.
func Signed(payload string, key Key) string {
	return oidctest.SignIDToken(key.Private, key.ID, "ES256", payload)
}

// ByAnother returns a token signed by another key, under the issuer's key id.
func ByAnother(payload string, key Key) string {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ""
	}
	return Signed(payload, Key{key.ID, private})
}

// Unsigned returns a token without a signature.
func Unsigned(payload string, _ Key) string {
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode([]byte(payload)) + "."
}

// Confused returns a token with an HMAC (HS256) whose secret is the public key.
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
