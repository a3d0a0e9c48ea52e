package master

import (
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// An older netmaster stores lists: the taken addresses and the number of endpoints in the records of networks
// and groups, the free tags and ids in records of their own. The addresses held for future endpoints, which no
// other record has, get records of their own; the rest is dropped. This must be done before anything is
// assigned. An older netmaster that leads again rebuilds its lists when its term begins, from the endpoints and
// services, and does not know the held addresses.

// formerLists are the prefixes of the lists of what is free.
var formerLists = []string{mastercfg.OperRoot + "auto-vlan/", mastercfg.OperRoot + "auto-vxlan/", mastercfg.OperRoot + "auto-epg/"}

// dropFormer deletes a list of what is free.
func dropFormer(p *pass, key string) (findings, error) {
	p.Delete(key)
	return findings{"list of what is free, " + key + ", dropped"}, nil
}

func formerNetwork(net *mastercfg.CfgNetworkState) bool {
	gateway := 0
	if net.IPv6Gateway != "" {
		gateway = 1
	}
	return net.EpCount != 0 || net.EpAddrCount != 0 || net.IPAllocMap.Len() != 0 || net.IPv6LastHost != "" || len(net.IPv6AllocMap) > gateway
}

// convertNetwork drops the lists of a network. Its map contains the whole range of a group, which has a map of its own.
func convertNetwork(p *pass, key string) (findings, error) {
	net, ok := readSound[mastercfg.CfgNetworkState](p, key)
	if !ok || !formerNetwork(&net) {
		return nil, nil
	}
	found := findings{"network " + net.ID + ": counters and address maps dropped"}
	s := &space{tx: p.Tx, net: net}
	var err error
	if s.v4, err = NetworkPool(p, &net); err == nil {
		err = s.holdMarked(net.IPAllocMap)
	}
	if err == nil {
		err = s.convertIPv6(&net)
	}
	if err != nil {
		return nil, err
	}
	net.EpCount, net.EpAddrCount, net.IPAllocMap = 0, 0, mastercfg.Bitmap{}
	return found, putNetwork(p.Tx, &net)
}

func (s *space) convertIPv6(net *mastercfg.CfgNetworkState) error {
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
	if net.IPv6LastHost == "" {
		return nil
	}
	counter := mastercfg.IPv6Counter{ID: net.ID, LastHost: net.IPv6LastHost}
	net.IPv6LastHost = ""
	return ledger.Write(s.tx, mastercfg.IPv6CounterPrefix+net.ID, counter)
}

// convertGroup does the same for a group.
func convertGroup(p *pass, key string) (findings, error) {
	g, ok := readSound[mastercfg.EndpointGroupState](p, key)
	if !ok || g.EpCount == 0 && g.EPGIPAllocMap.Len() == 0 {
		return nil, nil
	}
	if g.IPPool != "" {
		s, err := openSpace(p.Tx, mastercfg.NetworkID(g.TenantName, g.NetworkName), g.ID)
		if err == nil {
			err = s.holdMarked(g.EPGIPAllocMap)
		}
		if err := ignoreNotFound(err); err != nil {
			return nil, fmt.Errorf("endpoint group %s: %w", g.ID, err)
		}
	}
	g.EpCount, g.EPGIPAllocMap = 0, mastercfg.Bitmap{}
	return findings{"endpoint group " + g.ID + ": counters and address maps dropped"}, PutGroup(p.Tx, &g)
}

// holdMarked holds the untaken addresses of a map that the pool can assign.
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

// holdFree holds an address unless it is taken.
func (s *space) holdFree(addr netip.Addr) error {
	if addr.Is4() && s.v4.Taken(addr) || endpointAt(s.tx, s.net.ID, addr) != "" {
		return nil
	}
	return s.hold(addr.String())
}
