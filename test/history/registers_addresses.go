package history

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The states of the register of an address are the id of the endpoint that has
// it, and these.
const (
	free     = ""
	reserved = "allocated without an endpoint"
)

// Addresses checks, for every address of every network, that it was given to
// one owner at a time.
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
			a.add(c, c.Key, c.address(), c.exact, becomes(reserved, free))
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

// endpoint notes that an endpoint got its addresses, or gave them back.
func (a addressBook) endpoint(c *Call, ep *mastercfg.CfgEndpointState, revision int64) {
	for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if c.Verb == DeleteEndpoint {
			a.add(c, ep.NetID, addr, revision, becomes(free, ep.ID))
			continue
		}
		from := []string{free, ep.ID} // the endpoint may have been there
		if ep := c.Request.(*mastercfg.CreateEndpointRequest).ConfigEP; names(ep.IPAddress, addr) || names(ep.IPv6Address, addr) {
			from = append(from, reserved) // for whom names it
		}
		a.add(c, ep.NetID, addr, revision, becomes(ep.ID, from...))
	}
}

func names(text string, addr netip.Addr) bool {
	named, err := netip.ParseAddr(text)
	return err == nil && named == addr
}

// release gives back what was allocated and leaves alone what an endpoint has.
func (a addressBook) release(c *Call, revision int64) {
	text, _, _ := strings.Cut(c.Request.(*mastercfg.ReleaseAddressRequest).IPv4Address, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	a.add(c, c.Key, addr, revision, func(state string) (bool, string) {
		if state == reserved {
			state = free
		}
		return true, state
	})
}

// add enters a step into the register of an address. A network that is made
// again begins with new registers.
func (a addressBook) add(c *Call, networkID string, addr netip.Addr, revision int64, s step) {
	made, ok := a.generation(networkID, revision)
	if !ok {
		return
	}
	name := fmt.Sprintf("address %s of network %s made at %d", addr, networkID, made)
	a.registers[name] = append(a.registers[name], c.operation(s))
}

// generation is the revision at which the network of a moment was made. It is
// not ok where that cannot be said: there was no network then, or it was made
// again at that very revision.
func (a addressBook) generation(networkID string, revision int64) (made int64, ok bool) {
	versions := a.log.Alive(networkPrefix+networkID, 0, revision)
	n := len(versions)
	if n == 0 || versions[n-1].To <= revision {
		return 0, false
	}
	for n > 1 && versions[n-2].To == versions[n-1].From {
		n--
	}
	made = versions[n-1].From
	for _, at := range a.removals(networkID) {
		if at == revision && made < at {
			return 0, false
		}
		if at < revision {
			made = max(made, at)
		}
	}
	return made, true
}

// removals are the revisions at which a network was deleted, also where the log
// shows nothing because it was made again at once. In a large apply that is the
// beginning: nobody else touches the network until the apply is stored.
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
