package apidoc

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
)

// plainRoute is a route that is not about an object of the model: joining, logins, and rights.
type plainRoute struct {
	method, path string // as in "/api/v1/nodes/{host}"
	id, meaning  string
	who          string // who may call it
	body, answer any    // a value of the type; nil: none
	code         int    // of success; 0: 200
}

// Request and response types of routes, where the client has no equal type.
type (
	credentials struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	proxyVersion struct {
		Version string `json:"version"`
	}
	endedSessions struct {
		Ended int `json:"ended"` // how many sessions were ended
	}
	proxyHealth struct {
		Netmaster struct {
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Version string `json:"version"`
		} `json:"netmaster"`
		Status  string `json:"status"`
		Version string `json:"version"`
	}
	shownToken struct {
		Token string `json:"token"`
	}
	authority struct {
		Cluster     string `json:"cluster"`
		Authorities string `json:"authorities"`
	}
	joinRequest struct {
		Token     string   `json:"token"`
		Host      string   `json:"host"`
		CSR       []byte   `json:"csr"`
		Addresses []string `json:"addresses"`
		VTEPs     []string `json:"vteps"`
	}
	renewRequest struct {
		Host string `json:"host"`
		CSR  []byte `json:"csr"`
	}
	joinAnswer struct {
		Cluster     string `json:"cluster"`
		Certificate string `json:"certificate"`
		Authorities string `json:"authorities"`
	}
	shownJoinToken struct {
		Token  string           `json:"token"`
		Record client.JoinToken `json:"record"`
	}
	addMemberRequest struct {
		Name    string `json:"name"`
		PeerURL string `json:"peerURL"`
	}
	addMemberAnswer struct {
		Peers map[string]string `json:"peers"`
	}
	rotateRequest struct {
		DryRun bool `json:"dryRun"`
	}
	handedAuthorities struct {
		Files map[string]string `json:"files"`
	}
	authorization struct {
		PrincipalName string `json:"principalName"`
		Local         bool   `json:"local"`
		Role          string `json:"role"`
		TenantName    string `json:"tenantName"`
	}
	authorized struct {
		AuthzUUID, PrincipalName, Role, TenantName string
		Local                                      bool
	}
	newAPIToken struct {
		Name    string   `json:"name"`
		Role    string   `json:"role"`
		TTL     string   `json:"ttl"`
		Tenants []string `json:"tenants"`
	}
	certificateRequest struct {
		CSR []byte `json:"csr"`
	}
	shownAPIToken struct {
		client.APIToken
		Token string `json:"token"`
	}
	directory struct {
		Server        string `json:"server"`
		Port          int    `json:"port"`
		BaseDN        string `json:"base_dn"`
		Account       string `json:"service_account_dn"`
		StartTLS      bool   `json:"start_tls"`
		SkipVerify    bool   `json:"insecure_skip_verify"`
		IssuedTo      string `json:"tls_cert_issued_to"`
		Authorities   string `json:"tls_ca"`
		UserAttribute string `json:"user_attribute"`
	}
	providerShown struct {
		Issuer      string   `json:"issuer"`
		ClientID    string   `json:"client_id"`
		Authorities string   `json:"tls_ca"`
		NameClaim   string   `json:"username_claim"`
		GroupsClaim string   `json:"groups_claim"`
		Scopes      []string `json:"scopes"`
	}
	directorySent struct {
		directory
		Password string `json:"service_account_password"`
	}
)

// Callers of routes.
const (
	everybody  = "everybody"
	known      = "who is known"
	anAdmin    = "admin"
	anOperator = "operator"
	granter    = "admin; tenant-admin for viewer and tenant-admin of the tenant"
	himself    = "admin; users themselves"
)

const proxied = "/api/v1/auth_proxy"

// plainRoutes are all such routes. The tests of netmaster's routes compare them with what is served.
var plainRoutes = []plainRoute{
	{"POST", proxied + "/login", "login", "begin a session of 10 hours", everybody, credentials{}, shownToken{}, 0},
	{"POST", proxied + "/logout", "logout", "end the session whose token is shown", known, nil, nil, 204},
	{"GET", "/api/v1/whoami", "whoami", "who asks, and what it may", known, nil, client.Caller{}, 0},
	{"GET", proxied + "/version", "proxyVersion", "version of netmaster", everybody, nil, proxyVersion{}, 0},
	{"GET", proxied + "/health", "proxyHealth", "whether netmaster is well", everybody, nil, proxyHealth{}, 0},

	{"GET", proxied + "/local_users", "listUsers", "list the local users", anAdmin, nil, []client.User{}, 0},
	{"POST", proxied + "/local_users", "createUser", "create a local user", anAdmin, client.User{}, client.User{}, 201},
	{"GET", proxied + "/local_users/{user}", "getUser", "get a local user", himself, nil, client.User{}, 0},
	{"PATCH", proxied + "/local_users/{user}", "changeUser", "change what is given of a local user", himself, client.User{}, client.User{}, 0},
	{"DELETE", proxied + "/local_users/{user}", "deleteUser", "delete a local user; its sessions and certificates end", anAdmin, nil, nil, 204},
	{"GET", proxied + "/local_users/{user}/certificates", "listUserCertificates", "list the certificates of a local user that count", himself, nil, []client.MadeUserCertificate{}, 0},
	{"POST", proxied + "/local_users/{user}/certificates", "createUserCertificate", "make a certificate of 7 days for a local user's key; " +
		"with a certificate alone users get no other one, unless they are admins", himself, certificateRequest{}, client.UserCertificate{}, 201},
	{"DELETE", proxied + "/local_users/{user}/certificates", "endUserCertificates", "end all certificates of a local user", himself, nil, nil, 204},

	{"DELETE", proxied + "/sessions/{user}", "endSessions", "end the sessions of a user, local or of a directory", anAdmin, nil, endedSessions{}, 0},

	{"GET", proxied + "/authorizations", "listAuthorizations", "list the roles that the caller may take away", known, nil, []authorized{}, 0},
	{"POST", proxied + "/authorizations", "authorize", "give a role: viewer, tenant-admin (or ops), operator, admin, metrics", granter, authorization{}, authorized{}, 201},
	{"GET", proxied + "/authorizations/{id}", "getAuthorization", "get one by its AuthzUUID", granter, nil, authorized{}, 0},
	{"DELETE", proxied + "/authorizations/{id}", "deleteAuthorization", "take a role away", granter, nil, nil, 204},

	{"GET", proxied + "/tokens", "listTokens", "list the API tokens, without their texts", anAdmin, nil, []client.APIToken{}, 0},
	{"POST", proxied + "/tokens", "createToken", "create an API token, which is shown this once", anAdmin, newAPIToken{}, shownAPIToken{}, 201},
	{"DELETE", proxied + "/tokens/{name}", "deleteToken", "delete an API token", anAdmin, nil, nil, 204},

	{"GET", proxied + "/ldap_configuration", "getDirectory", "how the LDAP directory is reached, without the password", anAdmin, nil, directory{}, 0},
	{"PUT", proxied + "/ldap_configuration", "putDirectory", "say anew how it is reached", anAdmin, directorySent{}, directory{}, 201},
	{"PATCH", proxied + "/ldap_configuration", "changeDirectory", "change what is given", anAdmin, directorySent{}, directory{}, 0},
	{"DELETE", proxied + "/ldap_configuration", "deleteDirectory", "let local users log in only", anAdmin, nil, nil, 204},

	{"GET", proxied + "/openid", "openID", "what a browser is sent to the OpenID Connect provider with", everybody, nil, contivmodel.OpenIDClient{}, 0},
	{"POST", proxied + "/openid/login", "loginOpenID", "begin a session with what the browser has come back with", everybody, contivmodel.OpenIDProof{}, shownToken{}, 0},
	{"GET", proxied + "/openid_configuration", "getProvider", "how the provider is reached, without the secret", anAdmin, nil, providerShown{}, 0},
	{"PUT", proxied + "/openid_configuration", "putProvider", "say anew how it is reached", anAdmin, contivmodel.OpenIDConfig{}, providerShown{}, 201},
	{"PATCH", proxied + "/openid_configuration", "changeProvider", "change what is given", anAdmin, contivmodel.OpenIDConfig{}, providerShown{}, 0},
	{"DELETE", proxied + "/openid_configuration", "deleteProvider", "let its users log in no more; sessions go on", anAdmin, nil, nil, 204},

	{"GET", "/api/v1/ca", "authority", "the authorities that netmasters are known by, as PEM in the member `authorities`", everybody, nil, authority{}, 0},
	{"POST", "/api/v1/join", "join", "become a node, or a netmaster, with a join token", everybody, joinRequest{}, joinAnswer{}, 0},
	{"POST", "/api/v1/renew", "renew", "get the next certificate for the key that has joined", "who has joined", renewRequest{}, joinAnswer{}, 0},
	{"GET", "/api/v1/joinTokens", "listJoinTokens", "list the join tokens, without their secrets", anAdmin, nil, []client.JoinToken{}, 0},
	{"POST", "/api/v1/joinTokens", "createJoinToken", "create a join token, which is shown this once", anAdmin, client.NewJoinToken{}, shownJoinToken{}, 0},
	{"DELETE", "/api/v1/joinTokens/{id}", "removeJoinToken", "make a join token useless", anAdmin, nil, nil, 0},
	{"GET", "/api/v1/nodes", "listNodes", "list the nodes that have joined", anOperator, nil, []client.Joined{}, 0},
	{"DELETE", "/api/v1/nodes/{host}", "removeNode", "take the name of a node from its key", anAdmin, nil, nil, 0},
	{"POST", "/api/v1/nodes/{host}/rekey", "rekeyNode", "let the next one with a token have the name", anAdmin, nil, nil, 0},
	{"GET", "/api/v1/masters", "listMasters", "list the netmasters that have joined", anOperator, nil, []client.Joined{}, 0},
	{"DELETE", "/api/v1/masters/{host}", "removeMaster", "take the name of a netmaster from its key", anAdmin, nil, nil, 0},
	{"POST", "/api/v1/masters/{host}/rekey", "rekeyMaster", "let the next one with a token have the name", anAdmin, nil, nil, 0},

	{"POST", "/api/v1/security/rotate-keys", "rotateKeys", "do the next step of replacing the key that seals secrets in the store", anAdmin, rotateRequest{}, client.KeysRotation{}, 0},
	{"POST", "/api/v1/authorities/rotate", "rotateAuthorities", "do the next step of replacing the authorities", anAdmin, rotateRequest{}, client.Rotation{}, 0},
	{"POST", "/api/v1/store/members", "addMember", "have the store that netmasters embed expect another member", "netmasters", addMemberRequest{}, addMemberAnswer{}, 0},
	{"GET", "/api/v1/authorities", "handOver", "the authorities with their keys", "netmasters", nil, handedAuthorities{}, 0},
}

// PlainRoutes returns their methods and paths, as in "GET /api/v1/whoami".
func PlainRoutes() []string {
	var all []string
	for _, r := range plainRoutes {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// addPlain adds them to the document. Like all others they may be requested with a slash at the end.
func addPlain(paths, schemas object) {
	for _, r := range plainRoutes {
		path := r.path + "/"
		at, _ := paths[path].(object)
		if at == nil {
			at = object{}
			if from := strings.Index(path, "{"); from >= 0 {
				name := path[from+1 : strings.Index(path, "}")]
				at["parameters"] = []any{object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}}}
			}
			paths[path] = at
		}
		var body object
		if r.body != nil {
			body = schemaOf(reflect.TypeOf(r.body), schemas)
		}
		answer := object{}
		if r.answer != nil {
			answer = schemaOf(reflect.TypeOf(r.answer), schemas)
		}
		op := operation(r.id, strings.ToUpper(r.meaning[:1])+r.meaning[1:], body, answer)
		if answers := op["responses"].(object); r.code != 0 {
			done := answers["200"].(object)
			delete(answers, "200")
			answers[strconv.Itoa(r.code)] = done
			if r.code == http.StatusNoContent {
				delete(done, "content")
			}
		}
		at[strings.ToLower(r.method)] = op
	}
}

// plainTable returns the part of the page about them.
func plainTable() string {
	var page strings.Builder
	page.WriteString(`
## Who may ask, and who joins

Routes of clusters that ask who somebody is; see [security.md](security.md). They answer with proper statuses; refusals are
` + "`{\"error\": ...}`" + `, or problem documents for those who accept them. Bodies with a secret are taken over https, or on the
machine of a netmaster, only.

| Request | Meaning | Who |
|---|---|---|
`)
	for _, r := range plainRoutes {
		fmt.Fprintf(&page, "| `%s %s/` | %s | %s |\n", r.method, r.path, r.meaning, r.who)
	}
	return page.String()
}
