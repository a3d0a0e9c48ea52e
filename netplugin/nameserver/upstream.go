package nameserver

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/utils/fault"
)

// Upstream returns the upstream name servers, in the order in which they are queried.
type Upstream func() []netip.AddrPort

// Fixed returns an Upstream of servers that do not change.
func Fixed(servers ...netip.AddrPort) Upstream { return func() []netip.AddrPort { return servers } }

// ParseServer parses an address, or address:port. The port is 53 by default.
func ParseServer(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, dnsPort), nil
	}
	server, err := netip.ParseAddrPort(text)
	if err != nil || server.Port() == 0 {
		return netip.AddrPort{}, fault.New(fault.Invalid, "name server %q: want an address, or address:port", text)
	}
	return server, nil
}

const dnsPort = 53

// lookAgain is the minimum time between two checks whether a file has changed.
const lookAgain = 5 * time.Second

// FromFile returns the servers of a resolv.conf, which is read again when it changes. While it cannot be read, the
// servers stay the same.
func FromFile(path string, now func() time.Time) Upstream {
	var (
		mu      sync.Mutex
		looked  time.Time
		changed time.Time
		servers []netip.AddrPort
	)
	return func() []netip.AddrPort {
		mu.Lock()
		defer mu.Unlock()
		if !looked.IsZero() && now().Sub(looked) < lookAgain {
			return servers
		}
		looked = now()
		info, err := os.Stat(path)
		if err != nil || info.ModTime().Equal(changed) {
			return servers
		}
		if list, err := readServers(path); err == nil {
			servers, changed = list, info.ModTime()
		}
		return servers
	}
}

func readServers(path string) (servers []netip.AddrPort, err error) {
	config, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, err
	}
	for _, text := range config.Servers {
		server, err := ParseServer(net.JoinHostPort(text, config.Port))
		if err != nil {
			continue // the host cannot use it either
		}
		servers = append(servers, server)
	}
	return servers, nil
}
