package master

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairHeld releases a held address that is not needed any more: an endpoint or service has it, its network is
// gone, or no endpoint took it. The client that requested it may be about to create the endpoint, so it is
// released only if it was held without an owner in the last run already, and was not assigned again since.
func (rc *Reconciler) repairHeld(p *pass, key string) (findings, error) {
	networkID, text, _ := strings.Cut(key[len(mastercfg.HeldPrefix):], "/")
	addr, err := netip.ParseAddr(text)
	_, known := p.Get(mastercfg.NetworkPrefix + networkID)
	why := ""
	switch {
	case err != nil || !known:
		why = "is of a network that is gone"
	case endpointAt(p, networkID, addr) != "" || serviceAt(p, networkID, addr) != "":
		why = "was held and in use"
	case rc.suspects[key] == p.Revision(key):
		why = "had no owner"
	default:
		rc.next[key] = p.Revision(key)
		return nil, nil
	}
	p.Delete(key)
	return findings{fmt.Sprintf("network %s: address %s %s", networkID, text, why)}, nil
}
