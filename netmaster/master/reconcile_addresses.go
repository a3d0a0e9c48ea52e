package master

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairHeld frees an address that is held for nobody any more: an endpoint or
// service has it, its network is gone, or nobody came for it. Who asked for it
// may be about to create the endpoint, so that it is freed only if it was held
// without an owner in the last run already, and was not handed out again since.
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
