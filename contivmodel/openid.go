package contivmodel

// OpenIDClient is the data with which a browser is redirected to a provider of OpenID Connect.
type OpenIDClient struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	AuthURL  string   `json:"authorization_endpoint"`
	Scopes   []string `json:"scopes"` // in addition to openid
}

// OpenIDProof is the result of the browser's login at the provider, with the initial values.
type OpenIDProof struct {
	Code     string `json:"code"`
	Verifier string `json:"verifier"` // of PKCE
	Redirect string `json:"redirect_uri"`
	Nonce    string `json:"nonce"`
}

// OpenIDConfig is the configuration of a provider. In a change, nil fields are unchanged.
type OpenIDConfig struct {
	Issuer      *string   `json:"issuer,omitempty"`
	ClientID    *string   `json:"client_id,omitempty"`
	Secret      *string   `json:"client_secret,omitempty"`  // write-only; empty: the client is a public one
	Authorities *string   `json:"tls_ca,omitempty"`         // PEM; empty: the system's CAs
	NameClaim   *string   `json:"username_claim,omitempty"` // empty: preferred_username
	GroupsClaim *string   `json:"groups_claim,omitempty"`   // empty: groups
	Scopes      *[]string `json:"scopes,omitempty"`         // in addition to openid
}
