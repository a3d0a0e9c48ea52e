package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// securityOptions are the flags that say how netmaster shows who it is.
type securityOptions struct {
	secure bool
	dir    string
	names  string
	socket string
}

// defaultSocket is where root of the machine finds netmaster.
const defaultSocket = "/run/contiv/netmaster.sock"

// protection is what the flags say, once the addresses are resolved. Clients reach this
// netmaster at all addresses of the machine.
func (o *options) protection() (daemon.Security, []error) {
	s := daemon.Security{Dir: o.security.dir, Secure: o.security.secure, Socket: o.security.socket}
	if s.Secure && s.Socket == "" {
		s.Socket = defaultSocket
	}
	var found []error
	host, err := os.Hostname()
	if err != nil || !identity.ValidName(host) {
		host = "netmaster" // the name is for people: certificates of netmasters mean the same
	}
	if s.Name = host; s.Secure && s.Dir == "" {
		found = append(found, fmt.Errorf("--pki-dir: --secure needs a directory"))
	}
	for _, at := range []string{o.external, o.internal} {
		name, _, _ := net.SplitHostPort(at)
		reached(&s, name)
	}
	for _, own := range append(hostaddr.All(), daemonflags.List(o.security.names)...) {
		reached(&s, own)
	}
	return s, found
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
