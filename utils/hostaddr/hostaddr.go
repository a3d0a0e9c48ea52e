// Package hostaddr finds the addresses of this host: the default one that a daemon announces, and those by which
// other hosts may reach it.
package hostaddr

import (
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"

	"github.com/contiv/netplugin/utils/fault"
)

// innerLink matches links that never carry traffic between hosts: loopback, netplugin's own, and bridges of
// containers and virtual machines, which have the same addresses on many hosts, such as 172.17.0.1 of docker0.
var innerLink = regexp.MustCompile(`^(lo$|docker|veth|vport|vvport|contiv|inb01$|br-[0-9a-f]{12}$|cni|podman|virbr|lxcbr|lxdbr|flannel|cali|kube-)`)

// uplinkBridge is netplugin's own, too, but has the addresses of the host's uplinks (drivers/uplink).
const uplinkBridge = "contivUplink"

// located is an address of this host.
type located struct {
	link string
	addr netip.Addr
	up   bool
}

// inner reports whether no other host is reached by the link.
func (l located) inner() bool { return l.link != uplinkBridge && innerLink.MatchString(l.link) }

// Default returns the IPv4 address by which other hosts reach this one: the one that its own name resolves to, if
// that is configured here, else the first on a link that is not inner. A host without one may get one: the error
// is Unavailable.
func Default() (netip.Addr, error) {
	all, err := configured()
	if err != nil {
		return netip.Addr{}, err
	}
	return choose(all, addressesOfHostname())
}

func choose(all []located, named []netip.Addr) (netip.Addr, error) {
	var candidates []netip.Addr
	for _, l := range all {
		if l.up && l.addr.Is4() && !l.addr.IsLoopback() && !l.inner() {
			candidates = append(candidates, l.addr)
		}
	}
	if len(candidates) == 0 { // no IPv6 address instead: an IPv4 address may follow, and others identify the host by one
		return netip.Addr{}, fault.New(fault.Unavailable, "host has no IPv4 address outside loopback: wait for one, or give the one of IPv6 that others reach it at")
	}
	for _, name := range named {
		if slices.Contains(candidates, name) {
			return name, nil
		}
	}
	return candidates[0], nil
}

// In returns the host's address in a network, the first if it has several. That of a bridge of containers counts
// only if there is no other. A host without one may get one: the error is Unavailable.
func In(network netip.Prefix) (netip.Addr, error) {
	all, err := configured()
	if err != nil {
		return netip.Addr{}, err
	}
	return within(all, network)
}

func within(all []located, network netip.Prefix) (netip.Addr, error) {
	var found netip.Addr
	for _, l := range all {
		if !network.Contains(l.addr) {
			continue
		}
		if !l.inner() {
			return l.addr, nil
		}
		if !found.IsValid() {
			found = l.addr
		}
	}
	if !found.IsValid() {
		return found, fault.New(fault.Unavailable, "the host has no address in %s", network)
	}
	return found, nil
}

// configured returns the addresses of all links.
func configured() (all []located, err error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue // the link was removed meanwhile
		}
		for _, addr := range addrs {
			if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
				all = append(all, located{link.Name, prefix.Addr(), link.Flags&net.FlagUp != 0})
			}
		}
	}
	return all, nil
}

// addressesOfHostname returns none if the own name does not resolve, which is common and not an error.
func addressesOfHostname() []netip.Addr {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	texts, err := net.LookupHost(name)
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
			found = append(found, addr)
		}
	}
	return found
}
