package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// Prefixes of the registrations of nodes and netmasters.
var (
	agentPrefix  = objdb.ServicePrefix + mastercfg.AgentService + "/"
	vtepPrefix   = objdb.ServicePrefix + mastercfg.AgentVTEPService + "/"
	masterPrefix = objdb.ServicePrefix + mastercfg.MasterService + "/"
)

// judgeEntry checks a registration: it must be the node's, at an address with which it joined. It may list
// further addresses, up to the limit of agents, except tunnel addresses of other nodes.
func (x *index) judgeEntry(host, key string, value []byte) error {
	var s objdb.Service
	if err := json.Unmarshal(value, &s); err != nil {
		return err
	}
	if s.Hostname != host {
		return fmt.Errorf("it is about node %.100q, and who writes it has joined as %s", s.Hostname, host)
	}
	if s.Key() != key {
		return fmt.Errorf("it is about node %.100q under %.200q", s.Hostname, s.Key())
	}
	if n := len(s.Addresses); n > hostaddr.Most {
		return fmt.Errorf("%d addresses are more than %d", n, hostaddr.Most)
	}
	vtep, addr, err := splitEntry(key)
	if err != nil {
		return err
	}
	for _, text := range s.Addresses {
		said, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("address %.60q: %w", text, err)
		}
		if said.Zone() != "" { // a zone may be any text
			return fmt.Errorf("address %.60q has a zone", text)
		}
		if why := x.checkTunnelEndFree(host, said); why != nil {
			return why
		}
	}
	return errors.Join(x.ownAddress(host, addr, vtep), x.freeEntry(host, key))
}

// freeEntry returns an error if the key has the registration of another node that joined before.
func (x *index) freeEntry(host, key string) error {
	other := x.entries[key]
	if joined, known := x.nodes[other]; other != host && known && joined.Joined.Before(x.nodes[host].Joined) {
		return fmt.Errorf("it is that of node %s, which joined before", other)
	}
	return nil
}

// splitEntry parses the key of a node's registration.
func splitEntry(key string) (vtep bool, addr netip.Addr, err error) {
	rest, vtep := strings.CutPrefix(key, vtepPrefix)
	if !vtep {
		var is bool
		if rest, is = strings.CutPrefix(key, agentPrefix); !is {
			return false, addr, fmt.Errorf("it is not a registration of a node")
		}
	}
	where, err := netip.ParseAddrPort(rest)
	return vtep, where.Addr(), err
}

// ownAddress fails unless the node has joined with the address,
// and no node that joined before has it as tunnel address.
func (x *index) ownAddress(host string, addr netip.Addr, vtep bool) error {
	own := x.nodes[host].Addresses
	if vtep {
		own = x.nodes[host].VTEPs
	}
	if !slices.ContainsFunc(own, func(text string) bool { return sameAddress(text, addr) }) {
		return fmt.Errorf("address %s is not one that the node joined with: one whose addresses change joins anew: start it with a join token (--join-token-file), "+
			"or with those of before (--ctrl-ip, --vtep-ip)", addr)
	}
	return x.checkTunnelEndFree(host, addr)
}

// checkTunnelEndFree returns an error if an address is the tunnel address of another node that joined before. A node
// that joins with addresses that others have as well, such as those of container bridges, takes nothing from them.
func (x *index) checkTunnelEndFree(host string, addr netip.Addr) error {
	if other := x.ends.first(addr, host); other != "" && x.nodes[other].Joined.Before(x.nodes[host].Joined) {
		return fmt.Errorf("address %s is the tunnel end of node %s, which joined before", addr, other)
	}
	return nil
}

func sameAddress(text string, addr netip.Addr) bool {
	parsed, err := netip.ParseAddr(text)
	return err == nil && parsed.Unmap() == addr.Unmap()
}
