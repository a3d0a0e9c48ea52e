package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// scope is the part of a collection that a request asks for and its
// caller may see: the keys below some prefixes, or some of these.
type scope struct {
	prefixes []string // of the store's keys; sorted
	only     []string // whole keys, sorted; nil: all keys below the prefixes
}

// scopeOf limits a collection to a tenant: to its objects or, among the
// tenants, to itself. Kinds that belong to no tenant are not limited.
func scopeOf(reader ledger.Reader, kind contivmodel.Kind, r *http.Request) (scope, error) {
	root := mastercfg.ModelKey(kind.Type, "")
	if kind.Type != "tenant" && !kind.OfTenant() {
		return scope{prefixes: []string{root}}, nil
	}
	caller, area := auth.CallerFrom(r.Context()), rights.Objects
	if kind.Type == "tenant" {
		area = rights.Tenants
	}
	tenants, all, err := caller.Visible(reader, area)
	if err != nil {
		return scope{}, err
	}
	if tenant := r.URL.Query().Get("tenant"); tenant != "" {
		if err := caller.Judge(reader, auth.Need{Verb: rights.Read, Area: area, Tenant: tenant}); err != nil {
			return scope{}, err
		}
		tenants, all = []string{tenant}, false
	}
	if all {
		return scope{prefixes: []string{root}}, nil
	}
	slices.Sort(tenants)
	s := scope{}
	if kind.Type == "tenant" {
		s = scope{prefixes: []string{root}, only: []string{}}
	}
	for _, tenant := range tenants {
		if kind.Type == "tenant" {
			s.only = append(s.only, root+tenant)
		} else {
			s.prefixes = append(s.prefixes, root+tenant+":")
		}
	}
	return s, nil
}

// isEmpty reports whether the scope cannot contain a key.
func (s scope) isEmpty() bool { return len(s.prefixes) == 0 || s.only != nil && len(s.only) == 0 }

// holds reports whether a key of the store is in the scope.
func (s scope) holds(key string) bool {
	below := slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	return below && (s.only == nil || slices.Contains(s.only, key))
}

// equal reports whether two scopes are the same.
func (s scope) equal(other scope) bool {
	return slices.Equal(s.prefixes, other.prefixes) && slices.Equal(s.only, other.only) && (s.only == nil) == (other.only == nil)
}
