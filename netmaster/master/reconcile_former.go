package master

import (
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// An older netmaster keeps lists: the addresses that are taken and the number of
// endpoints in the records of networks and groups, the tags and ids that are free
// in records of their own. What of it says something that no other record does,
// the addresses held for endpoints to come, gets records of its own; the rest is
// dropped. It has to be done before anything is handed out. An older netmaster
// that leads again makes its lists anew when its term begins, from the endpoints
// and services, and does not know the addresses that are held.

// formerPools are the records of what is free.
var formerPools = []string{
	mastercfg.OperRoot + "auto-vlan/global", mastercfg.OperRoot + "auto-vxlan/global", mastercfg.OperRoot + "auto-epg/global",
}

// convert brings everything an older netmaster wrote into the present form.
func convert(tx *ledger.Tx) (findings, error) {
	var found findings
	for _, key := range formerPools {
		if _, has := tx.Get(key); has {
			tx.Delete(key)
			found = append(found, "list of what is free, "+key+", dropped")
		}
	}
	// The map of a network has the whole range of a group, which has one of its own.
	err := each(tx, mastercfg.NetworkPrefix, func(_ string, net mastercfg.CfgNetworkState) error {
		if !formerNetwork(&net) {
			return nil
		}
		found = append(found, "network "+net.ID+": counters and address maps dropped")
		return convertNetwork(tx, &net)
	})
	if err != nil {
		return nil, err
	}
	err = each(tx, mastercfg.EndpointGroupPrefix, func(_ string, g mastercfg.EndpointGroupState) error {
		if g.EpCount == 0 && g.EPGIPAllocMap.Len() == 0 {
			return nil
		}
		found = append(found, "endpoint group "+g.ID+": counters and address maps dropped")
		return convertGroup(tx, &g)
	})
	return found, err
}

func formerNetwork(net *mastercfg.CfgNetworkState) bool {
	gateway := 0
	if net.IPv6Gateway != "" {
		gateway = 1
	}
	return net.EpCount != 0 || net.EpAddrCount != 0 || net.IPAllocMap.Len() != 0 || net.IPv6LastHost != "" || len(net.IPv6AllocMap) > gateway
}

func convertNetwork(tx *ledger.Tx, net *mastercfg.CfgNetworkState) error {
	s := &space{tx: tx, net: *net}
	var err error
	if s.v4, err = networkPool(tx, net); err != nil {
		return err
	}
	if err := s.holdMarked(net.IPAllocMap); err != nil {
		return err
	}
	gateway := map[string]bool{}
	for host := range net.IPv6AllocMap {
		addr, ok := resources.IPv6Address(net, host)
		if ok && addr.String() == net.IPv6Gateway {
			gateway[host] = true
		} else if ok {
			if err := s.holdFree(addr); err != nil {
				return err
			}
		}
	}
	if net.IPv6AllocMap != nil {
		net.IPv6AllocMap = gateway
	}
	if net.IPv6LastHost != "" {
		counter := mastercfg.IPv6Counter{ID: net.ID, LastHost: net.IPv6LastHost}
		if err := ledger.Write(tx, mastercfg.IPv6CounterPrefix+net.ID, counter); err != nil {
			return err
		}
	}
	net.EpCount, net.EpAddrCount, net.IPAllocMap, net.IPv6LastHost = 0, 0, mastercfg.Bitmap{}, ""
	return putNetwork(tx, net)
}

func convertGroup(tx *ledger.Tx, g *mastercfg.EndpointGroupState) error {
	if g.IPPool != "" {
		s, err := openSpace(tx, mastercfg.NetworkID(g.TenantName, g.NetworkName), g.ID)
		if err == nil {
			err = s.holdMarked(g.EPGIPAllocMap)
		}
		if err := ignoreNotFound(err); err != nil {
			return fmt.Errorf("endpoint group %s: %w", g.ID, err)
		}
	}
	g.EpCount, g.EPGIPAllocMap = 0, mastercfg.Bitmap{}
	return PutGroup(tx, g)
}

// holdMarked holds the addresses of a map that the pool can hand out and nobody has.
func (s *space) holdMarked(marked mastercfg.Bitmap) error {
	for offset, ok := marked.NextSet(0); ok; offset, ok = marked.NextSet(offset + 1) {
		addr, ok := s.v4.At(offset)
		if !ok {
			continue
		}
		if err := s.holdFree(addr); err != nil {
			return err
		}
	}
	return nil
}

// holdFree holds an address that nobody has.
func (s *space) holdFree(addr netip.Addr) error {
	if addr.Is4() && s.v4.Taken(addr) || endpointAt(s.tx, s.net.ID, addr) != "" {
		return nil
	}
	return s.hold(addr.String())
}
