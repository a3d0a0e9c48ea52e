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

// space is where the addresses of an endpoint are allocated: a network, or the range that the
// endpoint's group has reserved in it.
type space struct {
	r        ledger.Reader
	tx       *ledger.Tx // nil: read-only
	net      mastercfg.CfgNetworkState
	group    *mastercfg.EndpointGroupState // nil: none
	own      bool                          // the addresses are those of the group's range
	v4       resources.IPv4Pool
	cooldown *Cooldown // which addresses other pods have just had; nil: the endpoint is no pod, and gets the lowest free address
}

// openSpace reads the records for an allocation; groupID is the state id of a group, or empty.
func openSpace(tx *ledger.Tx, networkID, groupID string) (*space, error) {
	s, err := viewSpace(tx, networkID, groupID)
	if err != nil {
		return nil, err
	}
	s.tx = tx
	return s, nil
}

// viewSpace reads the same records read-only. The range of a group is in its own network. Infra networks have
// one port per host, which belongs to no group.
func viewSpace(r ledger.Reader, networkID, groupID string) (*space, error) {
	s := &space{r: r}
	var err error
	if s.net, err = GetNetwork(r, networkID); err != nil {
		return nil, err
	}
	if groupID != "" && s.net.NwType != "infra" {
		group, err := GetGroup(r, groupID)
		if err != nil {
			return nil, err
		}
		s.group = &group
	}
	if s.own = s.group != nil && s.group.IPPool != "" && s.group.NetworkName == s.net.NetworkName; s.own {
		s.v4, err = resources.GroupPool(&s.net, s.group, addresses{r, s.net.ID})
	} else {
		s.v4, err = NetworkPool(r, &s.net)
	}
	return s, err
}

// NetworkPool returns the address pool of a network.
func NetworkPool(r ledger.Reader, net *mastercfg.CfgNetworkState) (resources.IPv4Pool, error) {
	return resources.NetworkPool(net, addresses{r, net.ID}, groupRanges{r, net.ID})
}

// GroupPool returns the address pool of a group that has reserved a range of a network.
func GroupPool(r ledger.Reader, net *mastercfg.CfgNetworkState, group *mastercfg.EndpointGroupState) (resources.IPv4Pool, error) {
	return resources.GroupPool(net, group, addresses{r, net.ID})
}

// takeIPv4 allocates the address of a record that the caller is about to write: the requested one, or the
// lowest free one; for a pod, the next one whose cooldown is over.
//
// A requested address may be held, as allocAddress may have assigned it to this very caller. It only must not be in
// use.
func (s *space) takeIPv4(requested string) (netip.Addr, error) {
	if requested == "" && s.cooldown != nil {
		return s.nextIPv4()
	}
	if requested == "" {
		return s.v4.Lowest()
	}
	addr, err := parseRequested(requested)
	if err != nil {
		return addr, err
	}
	if _, err := s.checkIPv4(addr); err != nil {
		return addr, err
	}
	s.release(addr)
	return addr, nil
}

// nextIPv4 finds the next address for a pod and records it, so that the next leader continues after it.
func (s *space) nextIPv4() (addr netip.Addr, err error) {
	counter := mastercfg.IPv4Counter{ID: s.net.ID}
	if s.own {
		counter.ID = s.group.ID
	}
	key := mastercfg.IPv4CounterPrefix + counter.ID
	before, err := ledger.Read[mastercfg.IPv4Counter](s.r, key)
	if err := ignoreCorrupt(ignoreNotFound(err)); err != nil {
		return addr, err
	}
	last, _ := netip.ParseAddr(before.Last) // invalid: none was assigned yet, the lowest will do
	if addr, err = s.cooldown.next(s.net.ID, last, s.v4); err != nil {
		return addr, err
	}
	counter.Last = addr.String()
	return addr, ledger.Write(s.tx, key, counter)
}

// dropIPv4Counter deletes the counter of a network, or of the range of a group. Most have none; the index says
// whether there is one, so that the transaction does not depend on the counter.
func dropIPv4Counter(tx *ledger.Tx, id string) {
	var keys []string
	found(tx, counterTerm+id, func(key string) bool {
		keys = append(keys, key)
		return true
	})
	for _, key := range keys {
		tx.Delete(key)
	}
}

// checkIPv4 returns an error for an address that cannot be allocated here, or that is taken (inUse).
func (s *space) checkIPv4(addr netip.Addr) (inUse bool, err error) {
	if err := s.v4.Check(addr); err != nil {
		return false, err
	}
	err = s.checkUnused(addr)
	return err != nil, err
}

// checkUnused returns an error for an address that an endpoint or a service has, or that another group has reserved.
func (s *space) checkUnused(addr netip.Addr) error {
	if owner := endpointAt(s.r, s.net.ID, addr); owner != "" {
		return fault.New(fault.Conflict, "requested address %s is used by endpoint %s", addr, owner).WithDetails("endpoint " + owner)
	}
	if service := serviceAt(s.r, s.net.ID, addr); service != "" {
		return fault.New(fault.Conflict, "requested address %s is used by service %s", addr, service).WithDetails("serviceLB " + service)
	}
	if reserved := s.reservedFor(addr); reserved != "" {
		return fault.New(fault.Conflict, "requested address %s is reserved by endpoint group %s", addr, reserved).
			WithDetails("endpointGroup " + reserved)
	}
	return nil
}

// reservedFor returns the group whose range contains an address, unless the space is that range; "" if there is none.
func (s *space) reservedFor(addr netip.Addr) string {
	key, first, _, ok := groupRanges{s.r, s.net.ID}.next(addr)
	if s.own || !ok || addr.Less(first) {
		return ""
	}
	tenant, group, _ := strings.Cut(key, ":")
	return mastercfg.EndpointGroupID(tenant, group)
}

// takeIPv6 allocates an IPv6 address like takeIPv4.
func (s *space) takeIPv6(requested string) (addr netip.Addr, err error) {
	if requested == "" {
		return s.nextIPv6()
	}
	if addr, err = parseRequested(requested); err != nil {
		return addr, err
	}
	if _, err := s.checkIPv6(addr); err != nil {
		return addr, err
	}
	s.release(addr)
	return addr, nil
}

// checkIPv6 checks an IPv6 address like checkIPv4.
func (s *space) checkIPv6(addr netip.Addr) (inUse bool, err error) {
	pool, err := s.ipv6()
	if err != nil {
		return false, err
	}
	if err := pool.Check(addr); err != nil {
		return false, err
	}
	if endpointAt(s.r, s.net.ID, addr) != "" || serviceAt(s.r, s.net.ID, addr) != "" {
		return true, pool.NotAvailable(addr)
	}
	return false, nil
}

// nextIPv6 finds the address after the last assigned one, and records it.
func (s *space) nextIPv6() (addr netip.Addr, err error) {
	pool, err := s.ipv6()
	if err != nil {
		return addr, err
	}
	if addr, err = pool.Next(); err != nil {
		return addr, err
	}
	counter := mastercfg.IPv6Counter{ID: s.net.ID, LastHost: pool.HostPart(addr)}
	return addr, ledger.Write(s.tx, mastercfg.IPv6CounterPrefix+s.net.ID, counter)
}

func (s *space) ipv6() (resources.IPv6Pool, error) {
	counter, err := ledger.Read[mastercfg.IPv6Counter](s.r, mastercfg.IPv6CounterPrefix+s.net.ID)
	if err := ignoreCorrupt(ignoreNotFound(err)); err != nil {
		return resources.IPv6Pool{}, err
	}
	return resources.NetworkPoolIPv6(&s.net, addresses{s.r, s.net.ID}, counter.LastHost)
}

// hold records that an address was assigned without an endpoint.
func (s *space) hold(address string) error {
	return ledger.Write(s.tx, mastercfg.HeldKey(s.net.ID, address), mastercfg.HeldAddress{ID: address, NetID: s.net.ID})
}

// held reports whether an address was assigned without an endpoint.
func (s *space) held(addr netip.Addr) bool {
	_, held := s.tx.Get(mastercfg.HeldKey(s.net.ID, addr.String()))
	return held
}

// release deletes the hold on an address; one that is not held is unaffected.
func (s *space) release(addr netip.Addr) { s.tx.Delete(mastercfg.HeldKey(s.net.ID, addr.String())) }

func parseRequested(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, fault.New(fault.Invalid, "requested address %s is not an IP address", text)
	}
	return addr, nil
}

// EndpointAt reads the endpoint of a network that has an address; ok is false if there is none.
func EndpointAt(r ledger.Reader, networkID string, addr netip.Addr) (ep mastercfg.CfgEndpointState, ok bool, err error) {
	id := endpointAt(r, networkID, addr)
	if id == "" {
		return ep, false, nil
	}
	ep, err = ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+id)
	return ep, err == nil, err
}

// endpointAt returns the id of the endpoint of a network that has an address; "" if there is none.
func endpointAt(r ledger.Reader, networkID string, addr netip.Addr) string {
	return ownerOf(r, networkID, addr, mastercfg.EndpointPrefix)
}

// serviceAt returns the id of the service of a network that has an address; "" if there is none.
func serviceAt(r ledger.Reader, networkID string, addr netip.Addr) string {
	return ownerOf(r, networkID, addr, mastercfg.ServiceLBPrefix)
}

// ownerOf returns the id of the record of a kind that has an address.
func ownerOf(r ledger.Reader, networkID string, addr netip.Addr, kind string) (id string) {
	found(r, addressTerm(networkID, addr), func(key string) (goOn bool) {
		var is bool
		if id, is = strings.CutPrefix(key, kind); !is {
			id = ""
		}
		return !is
	})
	return id
}

// mostNamed is how many endpoints an error names.
const mostNamed = 10

// EndpointsIn names the first few endpoints of a network, for the details of an error.
func EndpointsIn(r ledger.Reader, networkID string) []string {
	return named(EndpointKeys(r, networkID))
}

// Members likewise names endpoints of a group.
func Members(r ledger.Reader, groupID string) []string {
	return named(MemberKeys(r, groupID))
}

// MemberKeys returns the sorted keys of the endpoints of a group.
func MemberKeys(r ledger.Reader, groupID string) []string {
	var keys []string
	found(r, memberTerm+groupID, func(key string) bool {
		keys = append(keys, key)
		return true
	})
	return keys
}

// named returns the names of the first few endpoints that have these keys.
func named(keys []string) []string {
	var names []string
	for _, key := range keys[:min(len(keys), mostNamed)] {
		names = append(names, "endpoint "+strings.TrimPrefix(key, mastercfg.EndpointPrefix))
	}
	return names
}

// EndpointKeys returns the sorted keys of the endpoints that have an address in a network.
func EndpointKeys(r ledger.Reader, networkID string) []string {
	var keys []string
	for _, family := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		r.Search(ledger.NumberTerm(addressSet(networkID, family), nil), "", func(_, key string) bool {
			if strings.HasPrefix(key, mastercfg.EndpointPrefix) {
				keys = append(keys, key)
			}
			return true
		})
	}
	slices.Sort(keys)
	return slices.Compact(keys) // an endpoint may have two addresses
}

// groupRecord reads the record of a group by its model key; nil if it has none yet.
func groupRecord(r ledger.Reader, key string) (*mastercfg.EndpointGroupState, error) {
	tenant, group, _ := strings.Cut(key, ":")
	rec, err := GetGroup(r, mastercfg.EndpointGroupID(tenant, group))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &rec, err
}
