package hostaccess

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// The addresses and ports of the store's members are read from the store itself: the command line may name only
// one of them, by a host name, and does not have their peer ports. Known members are retained: endpoints must not
// reach a member that is down for a while either.

const (
	storesEvery = auditEvery
	storesTime  = 2 * time.Second // for the request, and to resolve names
)

// stores are the known members of the store.
type stores struct {
	nodes []netip.Addr
	ports []uint16
	asked time.Time
}

// readStores reads the members of the store, at intervals.
func (m *Manager) readStores(ctx context.Context) {
	if m.StoreURLs == nil || time.Since(m.stores.asked) < storesEvery {
		return
	}
	m.stores.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, storesTime)
	defer cancel()
	urls, err := m.StoreURLs(ctx)
	if err != nil {
		m.Log.WithError(err).Debug("members of the store are not known")
	}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			m.stores.add(ctx, u.Host)
		}
	}
	m.storesAt.Store(new(slices.Clone(m.stores.nodes)))
}

// add adds the address and port of a member; a name that does not resolve now is skipped.
func (s *stores) add(ctx context.Context, hostPort string) {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return
	}
	if port, err := strconv.ParseUint(portText, 10, 16); err == nil && !slices.Contains(s.ports, uint16(port)) {
		s.ports = append(s.ports, uint16(port))
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return
	}
	for _, a := range addresses {
		if a = a.Unmap(); a.IsGlobalUnicast() && !slices.Contains(s.nodes, a) {
			s.nodes = append(s.nodes, a)
		}
	}
}
