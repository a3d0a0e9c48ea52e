package contivmodel

// LDAPConfig is the configuration of an LDAP directory, in the form of the original's proxy, with two additional
// fields. In a change, nil fields are unchanged; the password is write-only.
type LDAPConfig struct {
	Server        *string `json:"server,omitempty"`
	Port          *int    `json:"port,omitempty"`
	BaseDN        *string `json:"base_dn,omitempty"`
	Account       *string `json:"service_account_dn,omitempty"`
	Password      *string `json:"service_account_password,omitempty"`
	StartTLS      *bool   `json:"start_tls,omitempty"` // else TLS from the start: nothing is sent in plain text
	SkipVerify    *bool   `json:"insecure_skip_verify,omitempty"`
	IssuedTo      *string `json:"tls_cert_issued_to,omitempty"`
	Authorities   *string `json:"tls_ca,omitempty"`         // PEM; empty: the system's CAs
	UserAttribute *string `json:"user_attribute,omitempty"` // attribute with the names of users
}
