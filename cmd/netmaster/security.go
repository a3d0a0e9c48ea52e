package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/owncert"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// securityOptions are the flags that say how netmaster shows who it is.
type securityOptions struct {
	secure        bool
	insecure      bool
	dir           string
	names         string
	socket        string
	plainLoopback string
	token         string
	join          string
	podToken      string // file
	own           owncert.Files
	authProxy     string
	leafLife      time.Duration
}

// shortestLife is of certificates that are renewed in time.
const shortestLife = 10 * time.Second

// defaultSocket is where root of the machine finds netmaster.
const defaultSocket = "/run/contiv/netmaster.sock"

// protection is what the flags say, once the addresses are resolved. Clients reach this
// netmaster at all addresses of the machine.
func (o *options) protection() (daemon.Security, []error) {
	s := daemon.Security{Dir: o.security.dir, Secure: o.security.secure, Socket: o.security.socket, AuthProxy: o.security.authProxy}
	s.TokenFile, s.Join = o.security.token, daemonflags.List(o.security.join)
	if s.Socket == "" {
		s.Socket, s.SocketOptional = defaultSocket, true
	}
	s.Own = o.security.own
	var found []error
	if s.LeafLife = o.security.leafLife; s.LeafLife < shortestLife || s.LeafLife > pki.LeafLife {
		found = append(found, fmt.Errorf("--leaf-life %s: want %s to %s", s.LeafLife, shortestLife, pki.LeafLife))
	}
	if s.Founding = o.founding(); s.Secure && o.security.insecure {
		found = append(found, fmt.Errorf("--secure, --insecure: want one of them at most"))
	}
	if s.PlainLoopback = o.security.plainLoopback; s.PlainLoopback != "" && !slices.Contains(rights.Roles(), s.PlainLoopback) {
		found = append(found, fmt.Errorf("--plain-loopback %q: want one of %v", s.PlainLoopback, rights.Roles()))
	}
	if err := s.Own.Check(); err != nil {
		found = append(found, err)
	}
	for _, at := range s.Join {
		if err := daemonflags.CheckAddress(at); err != nil {
			found = append(found, fmt.Errorf("--join: %w", err))
		}
	}
	if len(s.Join) > 0 && s.TokenFile == "" {
		found = append(found, fmt.Errorf("--join: needs --join-token-file"))
	}
	host, err := os.Hostname()
	if err != nil || !identity.ValidName(host) {
		host = "netmaster" // the name is for people: certificates of netmasters mean the same
	}
	if s.Name = host; (s.Founding == mastercfg.SecurityEnforced || s.TokenFile != "") && s.Dir == "" {
		found = append(found, fmt.Errorf("--pki-dir: a cluster that is not open, and --join-token-file, need a directory"))
	}
	if s.AuthProxy != "" {
		if err := daemonflags.CheckAddress(s.AuthProxy); err != nil {
			found = append(found, fmt.Errorf("--auth-proxy-address: %w", err))
		}
	}
	for _, at := range []string{o.external, o.internal, cmp.Or(s.AuthProxy, o.external)} {
		name, _, _ := net.SplitHostPort(at)
		reached(&s, name)
	}
	for _, own := range append(hostaddr.All(), daemonflags.List(o.security.names)...) {
		reached(&s, own)
	}
	return s, found
}

// founding is the mode of a new cluster. Who reaches a plain etcd owns the cluster, whatever
// netmasters ask of others: there, it is for people to decide.
func (o *options) founding() mastercfg.SecurityMode {
	closed := o.security.secure || o.embeddedDir != "" || o.common.Store.CertFile != ""
	if closed && !o.security.insecure {
		return mastercfg.SecurityEnforced
	}
	return mastercfg.SecurityOpen
}

// reached adds a name or an address to those in the certificate.
func reached(s *daemon.Security, at string) {
	addr, err := netip.ParseAddr(at)
	switch {
	case at == "" || err == nil && (addr.IsUnspecified() || addr.IsLoopback() || slices.Contains(s.Addresses, addr)):
	case err == nil:
		s.Addresses = append(s.Addresses, addr)
	case !slices.Contains(s.Names, at):
		s.Names = append(s.Names, at)
	}
}
