package master

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// AllocAddress assigns an address before there is an endpoint, as libnetwork needs it: it allocates an address,
// and passes it when it creates the endpoint. In swarm mode the network may be created even later; its first
// address is then returned but not reserved.
func AllocAddress(tx *ledger.Tx, req *mastercfg.AllocAddressRequest, swarm bool) (string, error) {
	pool, tenant, err := parsePool(req.AddressPool)
	if err != nil {
		return "", err
	}
	s, err := findSpace(tx, req.NetworkID, pool, tenant)
	if fault.Is(err, fault.NotFound) && swarm && req.NetworkID == "" && pool.IsValid() {
		return netip.PrefixFrom(pool.Masked().Addr().Next(), pool.Bits()).String(), nil
	}
	if err != nil {
		return "", err
	}
	preferred := req.PreferredIPv4Address // of the pool's family, despite its name
	named, _ := netip.ParseAddr(preferred)
	var addr netip.Addr
	length := s.net.SubnetLen
	if pool.IsValid() && pool.Addr().Is6() || named.Is6() || resources.OnlyIPv6(&s.net) && preferred == "" {
		length = s.net.IPv6SubnetLen
		if length == 0 {
			return "", fault.New(fault.Invalid, "subnet length 0 is invalid: network %s has no ipv6 subnet", s.net.ID)
		}
		addr, err = s.reserveIPv6(preferred)
	} else {
		addr, err = s.reserveIPv4(preferred)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%d", addr, length), s.hold(addr.String())
}

// NetworkOfPool returns the network that AllocAddress or ReleaseAddress would find for an id and a pool, and
// its tenant; empty if they would find none.
func NetworkOfPool(tx *ledger.Tx, networkID, pool string) (id, tenant string) {
	prefix, owner, err := parsePool(pool)
	if err != nil {
		return "", ""
	}
	s, err := formerSpace(tx, networkID, prefix, owner)
	if err != nil {
		return "", ""
	}
	return s.net.ID, s.net.Tenant
}

// HeldIn counts the addresses of a network that are assigned without an endpoint.
func HeldIn(r ledger.Reader, networkID string) int { return r.Count(heldTerm + networkID) }

// reserveIPv4 allocates an address that must be free.
func (s *space) reserveIPv4(preferred string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(preferred); err == nil && s.v4.Contains(addr) && s.v4.Taken(addr) {
		return addr, fault.New(fault.Conflict, "requested address %s is not available in network %s", addr, s.net.ID)
	}
	return s.takeIPv4(preferred)
}

// reserveIPv6 does the same for IPv6; "" means any address.
func (s *space) reserveIPv6(preferred string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(preferred); err == nil && (s.held(addr) || serviceAt(s.tx, s.net.ID, addr) != "" || len(PodsThatAsk(s.tx, s.net.ID, addr)) > 0) {
		return addr, fault.New(fault.Conflict, "requested address %s is not available in network %s", addr, s.net.ID)
	}
	return s.takeIPv6(preferred)
}

// ReleaseAddress releases an address that was assigned without an endpoint. The address of an endpoint stays:
// runtimes release after they delete the endpoint, when another one may already have got the address. The group
// whose range contained the address may be gone.
func ReleaseAddress(tx *ledger.Tx, req *mastercfg.ReleaseAddressRequest) error {
	text, _, _ := strings.Cut(req.IPv4Address, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return fault.New(fault.Invalid, "address %q is not an IP address", req.IPv4Address)
	}
	s, err := formerSpace(tx, req.NetworkID, netip.Prefix{}, "")
	if err != nil {
		return err
	}
	if addr.Is4() && (!s.v4.Contains(addr) || s.reservedFor(addr) != "") {
		return nil // not of this network, or not of this range
	}
	s.release(addr)
	return nil
}

// findSpace finds the network by an id ("N.T", or "N:G.T" for the range of a group; anything after a bar is
// ignored), or without an id by its pool. Ids are compared, never parsed: names may contain dots.
func findSpace(tx *ledger.Tx, id string, pool netip.Prefix, tenant string) (*space, error) {
	id, _, _ = strings.Cut(id, "|")
	switch {
	case id == "":
		networkID, err := networkByPool(tx, pool, tenant)
		if err != nil {
			return nil, err
		}
		return openSpace(tx, networkID, "")
	case strings.Contains(id, ":"):
		group, err := groupByPoolID(tx, id)
		if err != nil {
			return nil, err
		}
		return openSpace(tx, mastercfg.NetworkID(group.TenantName, group.NetworkName), group.ID)
	}
	return openSpace(tx, id, "")
}

func groupByPoolID(r ledger.Reader, id string) (*mastercfg.EndpointGroupState, error) {
	var found *mastercfg.EndpointGroupState
	for _, key := range keysOf(r, poolTerm+id, "endpointGroup") {
		g, err := groupRecord(r, key)
		if err != nil {
			return nil, err
		}
		if g == nil {
			continue
		}
		if found != nil {
			return nil, fault.New(fault.Conflict, "group %s is ambiguous: several groups have this id", id)
		}
		found = g
	}
	if found == nil {
		return nil, fault.New(fault.NotFound, "key not found: group %s", id)
	}
	return found, nil
}

// formerSpace is findSpace for a group that may be gone: it also finds the network for the id "N:G.T" of its
// range, which is the only existing network "N.T", wherever the tenant's name begins.
func formerSpace(tx *ledger.Tx, id string, pool netip.Prefix, tenant string) (*space, error) {
	id, _, _ = strings.Cut(id, "|")
	if s, err := findSpace(tx, id, pool, tenant); !fault.Is(err, fault.NotFound) || !strings.Contains(id, ":") {
		return s, err
	}
	network, rest, ofGroup := strings.Cut(id, ":")
	found := ""
	for ofGroup {
		if _, rest, ofGroup = strings.Cut(rest, "."); !ofGroup {
			break
		}
		networkID := mastercfg.NetworkID(rest, network)
		if _, there := tx.Get(mastercfg.NetworkPrefix + networkID); !there {
			continue
		}
		if found != "" {
			return nil, fault.New(fault.Conflict, "group %s is gone, and it is ambiguous whose it was: the networks of several tenants fit its id", id)
		}
		found = networkID
	}
	if found == "" {
		return nil, fault.New(fault.NotFound, "key not found: group %s", id)
	}
	return openSpace(tx, found, "")
}

func networkByPool(r ledger.Reader, pool netip.Prefix, tenant string) (string, error) {
	found := ""
	for _, key := range keysOf(r, subnetTerm+pool.Masked().String(), "network") {
		owner, name, _ := strings.Cut(key, ":")
		if tenant != "" && owner != tenant {
			continue
		}
		id := mastercfg.NetworkID(owner, name)
		if found != "" {
			return "", fault.New(fault.Conflict, "address pool %s is ambiguous: several networks have it, name a network, or a tenant as in %s:TENANT", pool, pool)
		}
		found = id
	}
	if found == "" {
		return "", fault.New(fault.NotFound, "network not found")
	}
	return found, nil
}

// parsePool parses "subnet/len" or "subnet/len:T"; an empty text gives an invalid prefix.
func parsePool(text string) (pool netip.Prefix, tenant string, err error) {
	if text == "" {
		return pool, "", nil
	}
	addr, rest, _ := strings.Cut(text, "/")
	length, tenant, _ := strings.Cut(rest, ":")
	pool, err = netip.ParsePrefix(addr + "/" + length)
	if err != nil {
		// The range pool of a group, "first-last", does not identify a network.
		if strings.Contains(addr, "-") {
			return netip.Prefix{}, "", nil
		}
		return pool, "", fault.New(fault.Invalid, "address pool %q: want subnet/length", text).WithField("AddressPool")
	}
	return pool, tenant, nil
}
