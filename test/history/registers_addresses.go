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
				a.endpoint(c, ep, c.Revision)
			}
		case c.Outcome == Unknown && fates[c].Endpoint != nil:
			a.endpoint(c, fates[c].Endpoint, fates[c].Revision)
		case c.Outcome == Done && c.Verb == AllocAddress:
			a.add(c, c.Key, c.address(), c.Revision, becomes(reserved, free))
		case c.Outcome == Done && c.Verb == ReleaseAddress:
			a.release(c, c.Revision)
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
// not ok where that cannot be said: the network came or went at that revision.
func (a addressBook) generation(networkID string, revision int64) (made int64, ok bool) {
	key := networkPrefix + networkID
	replaced := func(at int64) bool {
		return len(a.during(modelKey("network", reversedID(networkID)), at, at, Delete)) > 0
	}
	if replaced(revision) {
		return 0, false
	}
	versions := a.log.versions[key]
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].From > revision || versions[i].To <= revision {
			continue
		}
		for i > 0 && versions[i-1].To == versions[i].From && !replaced(versions[i].From) {
			i--
		}
		return versions[i].From, true
	}
	return 0, false
}
