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

// SourceOf returns the address that a request comes from, also if a netmaster has forwarded it.
func SourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Forwarded reports whether another netmaster forwards a request:
// then the certificate of the connection is not the client's.
func Forwarded(r *http.Request, who identity.Identity) bool {
	return who.Kind == identity.Master && r.Header.Get(mastercfg.ForwardedHeader) != ""
}

// forwarderKey is the context key of the netmaster that forwards a request.
type forwarderKey struct{}

// ForwardedBy marks a request that a netmaster forwards, with the name in its certificate.
func ForwardedBy(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), forwarderKey{}, name))
}

// Forwarder returns the name of ForwardedBy; empty: the client itself has sent the request.
func Forwarder(r *http.Request) string {
	name, _ := r.Context().Value(forwarderKey{}).(string)
	return name
}

// OfThisMachine reports whether a request comes from this machine, through the socket or loopback.
func OfThisMachine(r *http.Request) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	addr, err := netip.ParseAddr(host)
	return identity.From(r.Context()).Kind == identity.Root || err == nil && addr.Unmap().IsLoopback()
}

// plainKey marks requests that came over a connection that others can read.
type plainKey struct{}

// Plain marks a request that arrived over plain HTTP, at this netmaster or at the one that forwards it.
func Plain(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), plainKey{}, true))
}

// IsPlain reports whether a request is marked by Plain.
func IsPlain(r *http.Request) bool { return r.Context().Value(plainKey{}) != nil }

// Private reports whether only the two sides can read a request and its answer: it came over TLS, on the whole
// path if another netmaster forwards it, or from this machine or that of the other netmaster.
func Private(r *http.Request) bool {
	return r.TLS != nil && !IsPlain(r) || OfThisMachine(r)
}

// Confidential refuses a request with a token or a password, in
// the request or the answer, on a connection that others can read.
func Confidential(r *http.Request) error {
	if Private(r) {
		return nil
	}
	return fault.New(fault.Denied, "%s %s: tokens and passwords are taken and given over https only, or on the machine of a netmaster", r.Method, r.URL.Path)
}
