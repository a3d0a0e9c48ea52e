package master

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// space is where an endpoint's addresses come from: a network, and within it
// the range of its group if that has reserved one.
type space struct {
	tx    *ledger.Tx
	net   mastercfg.CfgNetworkState
	group *mastercfg.EndpointGroupState // nil: none
	v4    resources.IPv4Pool
}

// openSpace reads the records; groupID is the state id of a group, or empty.
// The range of a group is one of its own network.
// Infra networks have one port per host, which are in no group.
func openSpace(tx *ledger.Tx, networkID, groupID string) (*space, error) {
	s := &space{tx: tx}
	var err error
	if s.net, err = GetNetwork(tx, networkID); err != nil {
		return nil, err
	}
	if groupID != "" && s.net.NwType != "infra" {
		group, err := GetGroup(tx, groupID)
		if err != nil {
			return nil, err
		}
		s.group = &group
	}
	if s.group != nil && s.group.IPPool != "" && s.group.NetworkName == s.net.NetworkName {
		s.v4, err = resources.GroupPool(&s.net, s.group)
	} else {
		s.v4, err = resources.NetworkPool(&s.net)
	}
	return s, err
}

// put stores the records.
func (s *space) put() error {
	if s.group != nil {
		if err := PutGroup(s.tx, s.group); err != nil {
			return err
		}
	}
	return putNetwork(s.tx, &s.net)
}

// takeIPv4 takes an address: the one asked for, or the lowest free.
func (s *space) takeIPv4(requested string) (netip.Addr, error) {
	if requested == "" {
		addr, err := s.v4.Allocate()
		if err == nil {
			s.net.EpAddrCount++
		}
		return addr, err
	}
	addr, err := parseRequested(requested)
	if err != nil {
		return addr, err
	}
	// An address may be marked because allocAddress handed it out to the very
	// caller who now names it. What matters is whether somebody uses it.
	marked := s.v4.Contains(addr) && s.v4.Taken(addr)
	if marked {
		if err := s.unused(addr); err != nil {
			return addr, err
		}
	}
	if err := s.v4.Take(addr); err != nil {
		return addr, err
	}
	if !marked {
		s.net.EpAddrCount++
	}
	return addr, nil
}

// unused refuses an address that an endpoint or a service has or another group has reserved.
func (s *space) unused(addr netip.Addr) error {
	if owner, used, err := EndpointAt(s.tx, s.net.ID, addr); err != nil || used {
		return firstError(err, fault.New(fault.Conflict, "requested address %s is used by endpoint %s", addr, owner.ID).
			WithDetails("endpoint "+owner.ID))
	}
	if service := serviceAt(s.tx, s.net.ID, addr); service != "" {
		return fault.New(fault.Conflict, "requested address %s is used by service %s", addr, service).WithDetails("serviceLB " + service)
	}
	if s.group != nil && s.group.IPPool != "" {
		return nil
	}
	reserved, err := reservingGroup(s.tx, &s.net, addr)
	if err != nil || reserved != "" {
		return firstError(err, fault.New(fault.Conflict, "requested address %s is reserved by endpoint group %s", addr, reserved).
			WithDetails("endpointGroup "+reserved))
	}
	return nil
}

// takeIPv6 takes an address if the network has IPv6 or one was asked for.
func (s *space) takeIPv6(requested string) (string, error) {
	if requested == "" && s.net.IPv6SubnetLen == 0 {
		return "", nil
	}
	pool, err := resources.NetworkPoolIPv6(&s.net, s.used)
	if err != nil {
		return "", err
	}
	var addr netip.Addr
	held := false
	if requested == "" {
		addr, err = pool.Allocate()
	} else if addr, err = parseRequested(requested); err == nil {
		held = pool.Held(addr)
		err = pool.Take(addr)
	}
	if err != nil {
		return "", err
	}
	if !held {
		s.net.EpAddrCount++
	}
	return addr.String(), nil
}

// holdIPv6 takes an address before there is an endpoint.
func (s *space) holdIPv6() (string, error) {
	pool, err := resources.NetworkPoolIPv6(&s.net, s.used)
	if err != nil {
		return "", err
	}
	addr, err := pool.Allocate()
	if err != nil {
		return "", err
	}
	pool.Hold(addr)
	s.net.EpAddrCount++
	return addr.String(), nil
}

// used tells whether an endpoint of the network has an address.
func (s *space) used(addr netip.Addr) (used bool) {
	found(s.tx, addressTerm+s.net.ID+"/"+addr.String(), func(string) bool {
		used = true
		return false
	})
	return used
}

// release gives an address of either family back that was handed out without
// an endpoint; a free one stays free.
func (s *space) release(text string) { s.giveBack(text, false) }

// releaseOf gives back what an endpoint had; its record is gone already.
func (s *space) releaseOf(ep *mastercfg.CfgEndpointState) {
	s.giveBack(ep.IPAddress, false)
	s.giveBack(ep.IPv6Address, true)
}

// giveBack frees an address. That an endpoint had one of IPv6 only its own
// record tells, and is recorded nowhere else.
func (s *space) giveBack(text string, recorded bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return // an endpoint without an address of this family
	}
	released := recorded
	if addr.Is4() {
		released = s.v4.Release(addr)
	} else if pool, err := resources.NetworkPoolIPv6(&s.net, s.used); err == nil {
		released = pool.Release(addr) || recorded
	}
	if released {
		s.net.EpAddrCount = max(0, s.net.EpAddrCount-1)
	}
}

func parseRequested(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, fault.New(fault.Invalid, "requested address %s is not an IP address", text)
	}
	return addr, nil
}

// EndpointAt reads the endpoint of a network that has an address; ok is false
// if there is none.
func EndpointAt(r ledger.Reader, networkID string, addr netip.Addr) (ep mastercfg.CfgEndpointState, ok bool, err error) {
	found(r, addressTerm+networkID+"/"+addr.String(), func(key string) bool {
		ep, err = ledger.Read[mastercfg.CfgEndpointState](r, key)
		ok = err == nil
		return false
	})
	return ep, ok, err
}

// mostNamed is how many endpoints a refusal names.
const mostNamed = 10

// EndpointsIn names endpoints of a network, or of one of its groups, for the
// details of a refusal: the first few.
func EndpointsIn(r ledger.Reader, networkID, groupID string) []string {
	var names []string
	for _, key := range EndpointKeys(r, networkID) {
		ep, err := ledger.Read[mastercfg.CfgEndpointState](r, key)
		if err == nil && (groupID == "" || ep.EndpointGroupKey == groupID) {
			names = append(names, "endpoint "+key[len(mastercfg.EndpointPrefix):])
		}
		if len(names) == mostNamed {
			break
		}
	}
	return names
}

// EndpointKeys are the keys of the endpoints that have an address in a network, sorted.
func EndpointKeys(r ledger.Reader, networkID string) []string {
	var keys []string
	r.Search(addressTerm+networkID+"/", "", func(_, key string) bool {
		keys = append(keys, key)
		return true
	})
	slices.Sort(keys)
	return slices.Compact(keys) // an endpoint may have two addresses
}

// reservingGroup finds the group whose range holds an address, "" if none.
func reservingGroup(r ledger.Reader, net *mastercfg.CfgNetworkState, addr netip.Addr) (string, error) {
	for _, key := range keysOf(r, rangeTerm+net.Tenant+"/"+net.NetworkName, "endpointGroup") {
		g, err := groupRecord(r, key)
		if err != nil {
			return "", err
		}
		if g != nil && resources.InGroupPool(g, addr) {
			return g.ID, nil
		}
	}
	return "", nil
}

// groupRecord reads the record of a group given by its model key; nil if it has none yet.
func groupRecord(r ledger.Reader, key string) (*mastercfg.EndpointGroupState, error) {
	tenant, group, _ := strings.Cut(key, ":")
	rec, err := GetGroup(r, mastercfg.EndpointGroupID(tenant, group))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &rec, err
}

func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
