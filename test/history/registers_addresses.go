package history

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The states of an address register are the id of the owning endpoint, and these.
const (
	free     = ""
	reserved = "allocated without an endpoint"
	doubtful = "free or " + reserved // allocated at the revision at which the network was recreated
)

// Addresses checks, for every address of every network, that it had one owner at a time.
func Addresses(e *Evidence, fates map[*Call]Fate) []string {
	a := addressBook{e, map[string][]porcupine.Operation{}}
	for _, c := range e.calls {
		switch {
		case c.Outcome == Done && (c.Verb == CreateEndpoint || c.Verb == DeleteEndpoint):
			if ep := c.endpoint(); ep != nil {
				a.endpoint(c, ep, c.exact)
			}
		case c.Outcome == Unknown && fates[c].Endpoint != nil:
			a.endpoint(c, fates[c].Endpoint, fates[c].Exact)
		case c.Outcome == Done && c.Verb == AllocAddress:
			a.allocated(c)
		case c.Outcome == Done && c.Verb == ReleaseAddress:
			a.release(c, c.exact)
		case c.Outcome == Unknown && c.Verb == ReleaseAddress:
			a.release(c, c.From)
		}
	}
	return linearizable(a.registers)
}

type addressBook struct {
	*Evidence
	registers map[string][]porcupine.Operation
}

// allocated records an address that was allocated without an endpoint.
func (a addressBook) allocated(c *Call) {
	made, again, ok := a.generation(c.Key, c.exact)
	switch {
	case again:
		a.add(c, c.Key, made, c.address(), becomes(doubtful, free, doubtful))
	case ok:
		a.add(c, c.Key, made, c.address(), becomes(reserved, free, doubtful))
	}
}

// endpoint records that an endpoint got its addresses, or released them.
func (a addressBook) endpoint(c *Call, ep *mastercfg.CfgEndpointState, revision int64) {
	made, again, ok := a.generation(ep.NetID, revision)
	if !ok || again && (c.Verb == DeleteEndpoint || !a.holds(ep, revision)) {
		return
	}
	for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if c.Verb == DeleteEndpoint {
			a.add(c, ep.NetID, made, addr, becomes(free, ep.ID))
			continue
		}
		from := []string{free, doubtful, ep.ID} // the endpoint may have existed
		if ep := c.Request.(*mastercfg.CreateEndpointRequest).ConfigEP; names(ep.IPAddress, addr) || names(ep.IPv6Address, addr) {
			from = append(from, reserved) // if the request names it
		}
		a.add(c, ep.NetID, made, addr, becomes(ep.ID, from...))
	}
}

// holds reports whether the store has an endpoint with these addresses at a revision.
func (a addressBook) holds(ep *mastercfg.CfgEndpointState, revision int64) bool {
	key := endpointPrefix + ep.ID
	stored := endpointOf(key, a.log.At(key, revision))
	return stored != nil && stored.IPAddress == ep.IPAddress && stored.IPv6Address == ep.IPv6Address
}

func names(text string, addr netip.Addr) bool {
	named, err := netip.ParseAddr(text)
	return err == nil && named == addr
}

// release releases an allocated address, but not one of an endpoint.
func (a addressBook) release(c *Call, revision int64) {
	text, _, _ := strings.Cut(c.Request.(*mastercfg.ReleaseAddressRequest).IPv4Address, "/")
	addr, err := netip.ParseAddr(text)
	made, again, ok := a.generation(c.Key, revision)
	if err != nil || again || !ok {
		return
	}
	a.add(c, c.Key, made, addr, func(state string) (bool, string) {
		if state == reserved || state == doubtful {
			state = free
		}
		return true, state
	})
}

// add enters a step into the register of an address. A recreated network begins with new registers.
func (a addressBook) add(c *Call, networkID string, made int64, addr netip.Addr, s step) {
	name := fmt.Sprintf("address %s of network %s made at %d", addr, networkID, made)
	a.registers[name] = append(a.registers[name], c.operation(s))
}

// generation returns the revision at which the network of a moment was created; ok is false if there was none. The
// network may have been recreated at that very revision (again): steps before and after that cannot be
// distinguished. The same holds if the previous network was an infrastructure network, which may be deleted before
// its endpoints: the last of those may be deleted at the revision at which the next network is created.
func (a addressBook) generation(networkID string, revision int64) (made int64, again, ok bool) {
	versions := a.log.Alive(networkPrefix+networkID, 0, revision)
	n := len(versions)
	if n == 0 || versions[n-1].To <= revision {
		return 0, false, false
	}
	for n > 1 && versions[n-2].To == versions[n-1].From {
		n--
	}
	first := versions[n-1].From
	made = first
	for _, at := range a.removals(networkID) {
		if at <= revision {
			made = max(made, at)
		}
	}
	again = made > first || n > 1 && infra(versions[n-2].Value)
	return made, again && made == revision, true
}

// infra reports whether a network is an infrastructure network.
func infra(value []byte) bool {
	var network mastercfg.CfgNetworkState
	return json.Unmarshal(value, &network) == nil && network.NwType == "infra"
}

// removals returns the revisions at which a network was deleted, also if the log does not show it because it was
// recreated at once. For a large apply that is its beginning: no other call changes the network until the apply is
// stored.
func (a addressBook) removals(networkID string) (all []int64) {
	for _, c := range a.byKey[modelKey("network", reversedID(networkID))] {
		switch {
		case c.Verb != Delete:
		case c.Applied:
			all = append(all, a.log.before(c.exact)+1)
		default:
			all = append(all, c.exact)
		}
	}
	return all
}
