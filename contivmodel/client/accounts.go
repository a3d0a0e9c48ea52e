package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// accountsPath has the routes of the original's authenticating proxy, and some more in the same style.
const accountsPath = "/api/v1/auth_proxy/"

// Roles returns the roles that users, groups and API tokens can have.
func Roles() []string { return []string{"viewer", "tenant-admin", "metrics", "operator", "admin"} }

// Grant is a role in a tenant; "*" means all tenants.
type Grant struct {
	Role   string `json:"role"`
	Tenant string `json:"tenant"`
}

// Caller is the identity of the client, with its rights.
type Caller struct {
	Identity string     `json:"identity"` // as in "user/ann"
	Mode     string     `json:"mode"`     // of the cluster
	Roles    []Grant    `json:"roles"`
	Expires  *time.Time `json:"expires,omitempty"` // of the session or token; nil: never
}

// User is a local user. In a change, nil fields are unchanged.
type User struct {
	Username  string  `json:"username"`
	Password  *string `json:"password,omitempty"` // write-only
	FirstName *string `json:"first_name,omitempty"`
	LastName  *string `json:"last_name,omitempty"`
	Disable   *bool   `json:"disable,omitempty"`
}

// Binding is a role of a local user, or of a user group of an external directory.
type Binding struct {
	ID        string `json:"id"`
	Principal string `json:"principal"`
	Local     bool   `json:"local"` // a local user
	Grant
}

// APIToken is a token for programs, without its text.
type APIToken struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Tenants []string  `json:"tenants"` // "*": all
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	LastUse time.Time `json:"lastUse,omitzero"` // start of the hour; zero: not used yet
}

// NewAPIToken describes a token to create.
type NewAPIToken struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Tenants []string `json:"tenants"`
	TTL     string   `json:"ttl"` // such as 24h
}

// WhoAmI returns the identity of the caller as the server sees it.
func (c *Client) WhoAmI(ctx context.Context) (who Caller, err error) {
	return who, c.account(ctx, http.MethodGet, "/api/v1/whoami", nil, &who)
}

// Logout ends the session of the client's token.
func (c *Client) Logout(ctx context.Context) error {
	return c.account(ctx, http.MethodPost, accountsPath+"logout/", nil, nil)
}

// Users lists the local users.
func (c *Client) Users(ctx context.Context) (all []User, err error) {
	return all, c.account(ctx, http.MethodGet, accountsPath+"local_users/", nil, &all)
}

// CreateUser creates a local user, who needs a password and has no role yet.
func (c *Client) CreateUser(ctx context.Context, user User) error {
	return c.account(ctx, http.MethodPost, accountsPath+"local_users/", user, nil)
}

// ChangeUser changes the fields that are not nil.
func (c *Client) ChangeUser(ctx context.Context, user User) error {
	return c.account(ctx, http.MethodPatch, userPath(user.Username), user, nil)
}

// RemoveUser removes a user, with roles and sessions.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	return c.account(ctx, http.MethodDelete, userPath(name), nil, nil)
}

// EndSessions ends the sessions of a user, local or of a directory, and returns their number.
func (c *Client) EndSessions(ctx context.Context, name string) (int, error) {
	var told struct{ Ended int }
	err := c.account(ctx, http.MethodDelete, accountsPath+"sessions/"+url.PathEscape(name)+"/", nil, &told)
	return told.Ended, err
}

// UserCertificate is a client certificate of a local user.
type UserCertificate struct {
	Username    string    `json:"username"`
	Certificate string    `json:"certificate"` // PEM
	Authorities string    `json:"authorities"` // PEM: CAs of the servers' certificates
	Expires     time.Time `json:"expires"`
}

// CertifyUser creates a certificate for a local user, by a certificate request in DER for the user's key.
func (c *Client) CertifyUser(ctx context.Context, name string, csr []byte) (made UserCertificate, err error) {
	request := struct {
		CSR []byte `json:"csr"`
	}{csr}
	return made, c.account(ctx, http.MethodPost, userPath(name)+"certificates/", request, &made)
}

// MadeUserCertificate describes a certificate of a local user.
type MadeUserCertificate struct {
	Key     string    `json:"key"` // hash of its public key
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// UserCertificates lists the valid ones.
func (c *Client) UserCertificates(ctx context.Context, name string) (all []MadeUserCertificate, err error) {
	return all, c.account(ctx, http.MethodGet, userPath(name)+"certificates/", nil, &all)
}

// EndUserCertificates revokes all certificates of a local user.
func (c *Client) EndUserCertificates(ctx context.Context, name string) error {
	return c.account(ctx, http.MethodDelete, userPath(name)+"certificates/", nil, nil)
}

func userPath(name string) string { return accountsPath + "local_users/" + url.PathEscape(name) + "/" }

// boundForm is the wire form of a binding in the original's proxy.
type boundForm struct {
	AuthzUUID     string `json:",omitempty"`
	PrincipalName string
	Local         bool
	Role          string
	TenantName    string // empty: all tenants
}

// Names of the original for a role, and for all tenants.
const (
	ops        = "ops"
	everywhere = "*"
)

// Bindings lists the bindings that the caller may remove.
func (c *Client) Bindings(ctx context.Context) ([]Binding, error) {
	var forms []boundForm
	if err := c.account(ctx, http.MethodGet, accountsPath+"authorizations/", nil, &forms); err != nil {
		return nil, err
	}
	all := []Binding{}
	for _, f := range forms {
		b := Binding{f.AuthzUUID, f.PrincipalName, f.Local, Grant{f.Role, f.TenantName}}
		if b.Role == ops {
			b.Role = "tenant-admin"
		}
		if b.Tenant == "" {
			b.Tenant = everywhere
		}
		all = append(all, b)
	}
	return all, nil
}

// Bind assigns a role. It is not an error if the principal already has it.
func (c *Client) Bind(ctx context.Context, b Binding) error {
	form := boundForm{PrincipalName: b.Principal, Local: b.Local, Role: b.Role, TenantName: b.Tenant}
	if b.Tenant == everywhere {
		form.TenantName = ""
	}
	return c.account(ctx, http.MethodPost, accountsPath+"authorizations/", form, nil)
}

// Unbind removes a binding.
func (c *Client) Unbind(ctx context.Context, id string) error {
	return c.account(ctx, http.MethodDelete, accountsPath+"authorizations/"+url.PathEscape(id)+"/", nil, nil)
}

// CreateAPIToken creates a token. Its text is a secret, and is returned only here.
func (c *Client) CreateAPIToken(ctx context.Context, wanted NewAPIToken) (text string, made APIToken, err error) {
	var answer struct {
		APIToken
		Token string `json:"token"`
	}
	err = c.account(ctx, http.MethodPost, accountsPath+"tokens/", wanted, &answer)
	return answer.Token, answer.APIToken, err
}

// APITokens lists the tokens.
func (c *Client) APITokens(ctx context.Context) (all []APIToken, err error) {
	return all, c.account(ctx, http.MethodGet, accountsPath+"tokens/", nil, &all)
}

// RemoveAPIToken revokes a token at once.
func (c *Client) RemoveAPIToken(ctx context.Context, name string) error {
	return c.account(ctx, http.MethodDelete, accountsPath+"tokens/"+url.PathEscape(name)+"/", nil, nil)
}

// account sends a request to a route that open clusters do not have.
func (c *Client) account(ctx context.Context, method, path string, sent, result any) error {
	var body []byte
	if sent != nil {
		var err error
		if body, err = json.Marshal(sent); err != nil {
			return fault.New(fault.Internal, "%s: %w", path, err)
		}
	}
	err := c.do(ctx, method, path, body, result)
	if fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "page not found") {
		return fault.New(fault.Mode, "the cluster is open: it asks nobody who he is, and has neither users nor roles")
	}
	return err
}
