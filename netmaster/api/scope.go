package api

import (
	"net/http"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// scope is the part of a collection that a request is about.
type scope struct {
	prefix string // of the store's keys
	only   string // the one key; empty: all
}

// scopeOf narrows a collection to a tenant: to its objects, or, of the tenants,
// to itself. Kinds that belong to no tenant are not narrowed.
func scopeOf(kind contivmodel.Kind, r *http.Request) scope {
	s := scope{prefix: mastercfg.ModelKey(kind.Type, "")}
	tenant := r.URL.Query().Get("tenant")
	switch keyFields := kind.KeyFields(); {
	case tenant == "":
	case kind.Type == "tenant":
		s.only = s.prefix + tenant
	case len(keyFields) > 1 && keyFields[0].Name == "tenantName":
		s.prefix += tenant + ":"
	}
	return s
}

// holds tells whether a key of the store is in the scope.
func (s scope) holds(key string) bool {
	return strings.HasPrefix(key, s.prefix) && (s.only == "" || key == s.only)
}
