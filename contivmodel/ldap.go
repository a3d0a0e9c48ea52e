package contivmodel

// LDAPConfig is how an LDAP directory is reached, as clients of the original's proxy say it, and two fields more. In a
// change, what is nil stays as it is; the password is never told.
type LDAPConfig struct {
	Server        *string `json:"server,omitempty"`
	Port          *int    `json:"port,omitempty"`
	BaseDN        *string `json:"base_dn,omitempty"`
	Account       *string `json:"service_account_dn,omitempty"`
	Password      *string `json:"service_account_password,omitempty"`
	StartTLS      *bool   `json:"start_tls,omitempty"` // else TLS from the beginning: nothing is sent in plain
	SkipVerify    *bool   `json:"insecure_skip_verify,omitempty"`
	IssuedTo      *string `json:"tls_cert_issued_to,omitempty"`
	Authorities   *string `json:"tls_ca,omitempty"`         // PEM; empty: those of the system
	UserAttribute *string `json:"user_attribute,omitempty"` // that has the names of users
}
