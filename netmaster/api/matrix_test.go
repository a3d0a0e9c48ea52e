package api

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// somebody has the identities of a row's letters, in this order: a dot is accepted, an f gets 403. All other
// identities get 401 wherever one is required. Authentication by certificate gives the same rights.
var somebody = []string{"bare", "viewer of blue", "viewer", "admin of blue", "operator", "admin", "metrics", "token of a viewer of blue", "node", "root", "master"}

const (
	byCertificate = " by certificate"
	onlyMasters   = "m" // in the place of letters: all others get 403, whoever they are
)

// row has a path's results for reads and for changes.
type row struct{ read, change string }

var (
	rowPublic     = row{"", ""}
	rowMasters    = row{onlyMasters, ""}
	rowMembers    = row{"", onlyMasters}
	rowKnown      = row{"...........", "..........."}
	rowOwn        = row{"f.....f.f..", "fff...fff.."} // objects of blue
	rowForeign    = row{"ff.f..fff..", "ffff..fff.."} // objects of red
	rowTenant     = row{"f.....f.f..", "ffff..fff.."} // the tenant blue itself
	rowOperations = row{"ffff..fff..", "ffff..fff.."}
	rowMeasured   = row{"ffff...ff..", "fffffffffff"}
	rowAccess     = row{"fffff.fff..", "fffff.fff.."}
	rowAgents     = row{"fffff.ff...", "fffff.ff..."}
)

// matrix has every route but those of kinds, with the paths to request.
var matrix = map[string]map[string]row{
	rest.ApplyPath:         {rest.ApplyPath: rowKnown},
	countersPath + "{key}": {countersPath + "blue:none": rowOwn, countersPath + "red:none": rowForeign},
	verdictPath:            {verdictPath: rowKnown},
	tracePath:              {tracePath: rowKnown},
	"/api/v1/status":       {"/api/v1/status": rowKnown},
	"/api/v1/openapi.json": {"/api/v1/openapi.json": rowKnown},

	inspectRoot + "{segment:globals}/{key}":   {inspectRoot + "globals/global": rowKnown},
	inspectRoot + "{segment:endpoints}/{key}": {inspectRoot + "endpoints/none": rowKnown},
	inspectRoot + "networkPolicies/{key}":     {inspectRoot + "networkPolicies/shop:none": rowKnown},

	mastercfg.AllocAddressPath:   {mastercfg.AllocAddressPath: rowAgents},
	mastercfg.ReleaseAddressPath: {mastercfg.ReleaseAddressPath: rowAgents},
	mastercfg.CreateEndpointPath: {mastercfg.CreateEndpointPath: rowAgents},
	mastercfg.DeleteEndpointPath: {mastercfg.DeleteEndpointPath: rowAgents},
	mastercfg.UpdateEndpointPath: {mastercfg.UpdateEndpointPath: rowAgents},

	mastercfg.AuthorityPath:               {mastercfg.AuthorityPath: rowPublic},
	mastercfg.JoinPath:                    {mastercfg.JoinPath: rowPublic},
	mastercfg.RenewPath:                   {mastercfg.RenewPath: rowPublic},
	mastercfg.AuthoritiesPath:             {mastercfg.AuthoritiesPath: rowMasters},
	mastercfg.StoreMembersPath:            {mastercfg.StoreMembersPath: rowMembers},
	mastercfg.RotatePath:                  {mastercfg.RotatePath: rowAccess},
	mastercfg.JoinTokensPath:              {mastercfg.JoinTokensPath: rowAccess},
	mastercfg.JoinTokensPath + "/{id}":    {mastercfg.JoinTokensPath + "/none": rowAccess},
	mastercfg.NodesPath:                   {mastercfg.NodesPath: rowOperations},
	mastercfg.NodesPath + "/{host}":       {mastercfg.NodesPath + "/none": rowAccess},
	mastercfg.NodesPath + "/{host}/rekey": {mastercfg.NodesPath + "/none/rekey": rowAccess},
	mastercfg.NodesPath + "/{host}/agent/{what:" + agentPaths + "}": {mastercfg.NodesPath + "/none/agent/inspect/driver": rowOperations},
	mastercfg.NodesPath + "/{host}/agent/{what:metrics}":            {mastercfg.NodesPath + "/none/agent/metrics": rowMeasured},
	mastercfg.MastersPath:                   {mastercfg.MastersPath: rowOperations},
	mastercfg.MastersPath + "/{host}":       {mastercfg.MastersPath + "/none": rowAccess},
	mastercfg.MastersPath + "/{host}/rekey": {mastercfg.MastersPath + "/none/rekey": rowAccess},

	mastercfg.SecurityPath:              {mastercfg.SecurityPath: rowOperations},
	mastercfg.SecurityPath + "/report":  {mastercfg.SecurityPath + "/report": rowOperations},
	mastercfg.SecurityPath + "/init":    {mastercfg.SecurityPath + "/init": rowAccess},
	mastercfg.SecurityPath + "/enforce": {mastercfg.SecurityPath + "/enforce?dryRun=true": rowAccess},
	mastercfg.RotateKeysPath:            {mastercfg.RotateKeysPath: rowAccess},
	mastercfg.SecurityPath + "/relax":   {mastercfg.SecurityPath + "/relax?dryRun=true": rowAccess},

	MetricsPath:     {MetricsPath: rowMeasured},
	"/version":      {"/version": rowPublic},
	"/info":         {"/info": rowOperations},
	"/services":     {"/services": rowKnown},
	"/service/{id}": {"/service/none": rowKnown},
	"/debug/ofnet":  {"/debug/ofnet": rowOperations},

	"/debug/epcleanup/tenant/{tenant}/{category:net|group|ep}/{id}": {
		"/debug/epcleanup/tenant/blue/ep/none": rowOwn, "/debug/epcleanup/tenant/red/ep/none": rowForeign},

	logins.AuthPath + "/login":                           {logins.AuthPath + "/login": rowPublic},
	openIDPath:                                           {openIDPath: rowPublic},
	openIDLoginPath:                                      {openIDLoginPath: rowPublic},
	providerPath:                                         {providerPath: rowAccess},
	logins.AuthPath + "/version":                         {logins.AuthPath + "/version": rowPublic},
	logins.AuthPath + "/health":                          {logins.AuthPath + "/health": rowPublic},
	logins.AuthPath + "/logout":                          {logins.AuthPath + "/logout": rowKnown},
	logins.WhoAmIPath:                                    {logins.WhoAmIPath: rowKnown},
	logins.AuthPath + "/local_users":                     {logins.AuthPath + "/local_users": rowAccess},
	logins.AuthPath + "/local_users/{user}":              {logins.AuthPath + "/local_users/none": rowAccess},
	logins.AuthPath + "/local_users/{user}/certificates": {logins.AuthPath + "/local_users/none/certificates": rowAccess},
	logins.AuthPath + "/sessions/{user}":                 {logins.AuthPath + "/sessions/none": rowAccess},
	logins.AuthPath + "/authorizations":                  {logins.AuthPath + "/authorizations": rowKnown}, // cut to what the caller may give
	logins.AuthPath + "/authorizations/{id}":             {logins.AuthPath + "/authorizations/none": rowAccess},
	directoryPath:                                        {directoryPath: rowAccess},
	logins.AuthPath + "/tokens":                          {logins.AuthPath + "/tokens": rowAccess},
	logins.AuthPath + "/tokens/{name}":                   {logins.AuthPath + "/tokens/none": rowAccess},
}

// kindPaths returns the paths of a kind, for the three routes of kinds.
func kindPaths(kind contivmodel.Kind) map[string]row {
	root, inspect := "/api/v1/"+kind.Segment+"/", inspectRoot+kind.Segment+"/"
	switch {
	case kind.Type == "global":
		return map[string]row{root: rowOperations, root + "none": rowOperations}
	case kind.Type == "tenant":
		return map[string]row{root: rowKnown, root + "?tenant=red": rowForeign, root + "blue": rowTenant, root + "red": rowForeign,
			inspect + "blue": rowTenant, inspect + "red": rowForeign}
	case strings.HasPrefix(kind.Type, "aciGw") || kind.Type == "Bgp":
		return map[string]row{root: rowOperations, root + "none": rowOperations, inspect + "none": rowOperations}
	}
	return map[string]row{root: rowKnown, root + "?tenant=red": {rowForeign.read, rowKnown.change}, root + "blue:none": rowOwn, root + "red:none": rowForeign,
		inspect + "blue:none": rowOwn, inspect + "red:none": rowForeign}
}

func TestEveryRouteAnswersWhomTheTableNames(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	tokens := map[string]string{
		"nobody": "", "unknown": accounts.NewToken("x").Text,
		"expired": b.userAt("expired", time.Now().Add(-2*accounts.SessionLife), rights.Grant{Role: rights.Admin, Tenant: "*"}),
		"ended":   b.user("ended", rights.Grant{Role: rights.Admin, Tenant: "*"}), "disabled": b.user("disabled", rights.Grant{Role: rights.Admin, Tenant: "*"}),
		"bare": b.user("bare"), "viewer of blue": b.user("v", rights.Grant{Role: rights.Viewer, Tenant: "blue"}),
		"viewer": b.user("va", rights.Grant{Role: rights.Viewer, Tenant: "*"}), "admin of blue": b.user("ta", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"}),
		"operator": b.user("op", rights.Grant{Role: rights.Operator, Tenant: "*"}), "admin": b.user("ad", rights.Grant{Role: rights.Admin, Tenant: "*"}),
		"node": "proven:node/h1", "root": "proven:root", "master": "proven:master/m1", "operator" + byCertificate: "proven:user/op",
		"removed node": "proven:node/h0", "node whose name has another key": "proven:node/h2", "removed master": "proven:master/m0", "certificate that is taken back": "proven:user/v",
	}
	b.certified("op", time.Now().Add(time.Hour))
	b.plan(func(tx *ledger.Tx) error {
		who, err := access.Recognize(tx, tokens["ended"])
		if err != nil {
			return err
		}
		access.Logout(tx, who)
		yes := true
		if _, err = access.ChangeUser(tx, identity.Identity{}, "disabled", access.UserChange{Disabled: &yes}); err != nil {
			return err
		}
		if err := ledger.Write(tx, mastercfg.NodePrefix+"h2", mastercfg.Joined{Host: "h2", Key: "k2"}); err != nil {
			return err
		}
		tx.Put(mastercfg.RemovedMasterPrefix+"m0", nil)
		root := identity.Identity{Kind: identity.Root}
		if _, tokens["metrics"], err = access.CreateToken(tx, access.NewToken{Name: "m", Role: rights.Metrics, Tenants: []string{"*"}, Life: time.Hour, By: root}, time.Now()); err != nil {
			return err
		}
		_, tokens["token of a viewer of blue"], err = access.CreateToken(tx, access.NewToken{Name: "t", Role: rights.Viewer, Tenants: []string{"blue"}, Life: time.Hour, By: root}, time.Now())
		return err
	})
	rows := map[string]row{}
	for _, route := range slices.Concat(b.api.allRoutes(), b.api.logins.Routes()) {
		if route.Area == rights.OfKind {
			continue
		}
		if route.Area == rights.Unlisted || matrix[route.Path] == nil {
			t.Errorf("%s has no entry", route.Path)
		}
		for path, want := range matrix[route.Path] {
			rows[path] = want
		}
	}
	for _, kind := range contivmodel.Kinds() {
		for path, want := range kindPaths(kind) {
			rows[path] = want
		}
	}
	cells, deviations := 0, 0
	for path, want := range rows {
		for method, letters := range map[string]string{"GET": want.read, "POST": want.change, "PUT": want.change, "DELETE": want.change, "PATCH": want.change} {
			if path == logins.AuthPath+"/logout" || method == "PATCH" && !strings.HasPrefix(path, logins.AuthPath) {
				continue // would end their sessions, see below; is served below AuthPath only
			}
			served := b.cell(tokens["root"], method, path) != "405"
			for who, token := range tokens {
				cells++
				if got, want := b.cell(token, method, path), expected(who, letters); (got != want && got != "405" || served && got == "405") && deviations < 20 {
					deviations++
					t.Errorf("%s %s by %s: %s, want %s", method, path, who, got, want)
				}
			}
		}
	}
	for who, token := range tokens {
		if got, want := b.cell(token, "POST", logins.AuthPath+"/logout"), expected(who, rowKnown.change); got != want {
			t.Errorf("logout by %s: %s, want %s", who, got, want)
		}
	}
	if t.Logf("%d cells, %d identities", cells, len(tokens)); cells < 800 || len(tokens) < 14 {
		t.Error("too few")
	}
}

// expected returns the expected result of a row for an identity; without letters every request is accepted.
func expected(who, letters string) string {
	switch {
	case letters == "" || letters == onlyMasters && who == "master":
		return "let in"
	case letters == onlyMasters && who != "removed master":
		return "403"
	}
	for i, name := range somebody {
		if name == strings.TrimSuffix(who, byCertificate) {
			return map[byte]string{'.': "let in", 'f': "403"}[letters[i]]
		}
	}
	return "401"
}

// cell returns the answer to a request for a missing object, or with an unreadable body.
func (b *bench) cell(token, method, path string) string {
	r := httptest.NewRequest(method, path, strings.NewReader("{"))
	r.RemoteAddr = "127.0.0.1:40000"
	if proven, is := strings.CutPrefix(token, "proven:"); is {
		r = r.WithContext(identity.With(r.Context(), b.proven(proven)))
		r.TLS = &tls.ConnectionState{} // which proves it
	} else if token != "" {
		r.Header.Set(auth.TokenHeader, token)
	}
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	switch w.Code {
	case http.StatusUnauthorized:
		return "401"
	case http.StatusForbidden:
		return "403"
	case http.StatusMethodNotAllowed:
		return "405" // nobody is let in
	}
	return "let in"
}

// A route without an area is refused to everyone.
func TestARouteWithoutAnAreaIsRefused(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	forgotten := served{api: b.api, Route: rest.Route{Path: "/x", Methods: rest.Methods{http.MethodGet: version}}}
	r, err := b.api.entrance.Enter(httptest.NewRequest("GET", "/x", nil).WithContext(identity.With(t.Context(), identity.Identity{Kind: identity.Root})))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if forgotten.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
