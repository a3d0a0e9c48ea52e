package rest

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// SourceOf is the address a request comes from, behind a netmaster that has passed it on.
func SourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Forwarded tells whether another netmaster passes a request on: then the certificate of the connection is not the
// client's.
func Forwarded(r *http.Request, who identity.Identity) bool {
	return who.Kind == identity.Master && r.Header.Get(mastercfg.ForwardedHeader) != ""
}

// OfThisMachine tells whether a request comes from this machine, by the socket or by
// loopback.
func OfThisMachine(r *http.Request) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	addr, err := netip.ParseAddr(host)
	return identity.From(r.Context()).Kind == identity.Root || err == nil && addr.Unmap().IsLoopback()
}

// plainKey marks requests that came over a connection that others can read.
type plainKey struct{}

// Plain marks a request that came over plain HTTP, to this netmaster or to the one that
// passes it on.
func Plain(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), plainKey{}, true))
}

// IsPlain tells whether a request is marked so.
func IsPlain(r *http.Request) bool { return r.Context().Value(plainKey{}) != nil }

// Private tells whether nobody but the two sides can read a request and its answer: it
// came over TLS, all the way if another netmaster passes it on, or from this machine or that
// of the other one.
func Private(r *http.Request) bool {
	return r.TLS != nil && !IsPlain(r) || OfThisMachine(r)
}

// Confidential refuses a request in which, or in the answer to which, there is a token or a password, on a connection
// that others can read.
func Confidential(r *http.Request) error {
	if Private(r) {
		return nil
	}
	return fault.New(fault.Denied, "%s %s: tokens and passwords are taken and given over https only, or on the machine of a netmaster", r.Method, r.URL.Path)
}
