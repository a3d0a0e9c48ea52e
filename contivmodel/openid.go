package contivmodel

// OpenIDClient is what a browser is sent to a provider of OpenID Connect with.
type OpenIDClient struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	AuthURL  string   `json:"authorization_endpoint"`
	Scopes   []string `json:"scopes"` // beside openid
}

// OpenIDProof is what the browser has come back with, and what its way began with.
type OpenIDProof struct {
	Code     string `json:"code"`
	Verifier string `json:"verifier"` // of PKCE
	Redirect string `json:"redirect_uri"`
	Nonce    string `json:"nonce"`
}

// OpenIDConfig is how a provider is reached. In a change, what is nil stays as it is.
type OpenIDConfig struct {
	Issuer      *string   `json:"issuer,omitempty"`
	ClientID    *string   `json:"client_id,omitempty"`
	Secret      *string   `json:"client_secret,omitempty"`  // never told; empty: the client is a public one
	Authorities *string   `json:"tls_ca,omitempty"`         // PEM; empty: those of the system
	NameClaim   *string   `json:"username_claim,omitempty"` // empty: preferred_username
	GroupsClaim *string   `json:"groups_claim,omitempty"`   // empty: groups
	Scopes      *[]string `json:"scopes,omitempty"`         // beside openid
}
