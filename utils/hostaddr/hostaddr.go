// Package hostaddr finds the address a daemon announces when none was given.
package hostaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// ownLinks begin the names of links that never carry traffic between hosts.
var ownLinks = []string{"lo", "docker", "veth", "vport", "contiv"}

// Default returns the IPv4 address other hosts reach this one at: the one its
// own name resolves to, if that is configured here, else the first on a link
// that is not loopback, docker's or ours.
func Default() (netip.Addr, error) {
	links, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	var candidates []netip.Addr
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || isOwn(link.Name) {
			continue
		}
		addrs, err := link.Addrs()
		if err != nil {
			continue // the link went away while we looked
		}
		candidates = append(candidates, ipv4(addrs)...)
	}
	if len(candidates) == 0 {
		return netip.Addr{}, errors.New("host has no IPv4 address outside loopback")
	}
	for _, named := range addressesOfHostname() {
		for _, candidate := range candidates {
			if candidate == named {
				return candidate, nil
			}
		}
	}
	return candidates[0], nil
}

func isOwn(link string) bool {
	for _, prefix := range ownLinks {
		if strings.HasPrefix(link, prefix) {
			return true
		}
	}
	return false
}

func ipv4(addrs []net.Addr) []netip.Addr {
	var found []netip.Addr
	for _, addr := range addrs {
		prefix, err := netip.ParsePrefix(addr.String())
		if err == nil && prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			found = append(found, prefix.Addr())
		}
	}
	return found
}

// addressesOfHostname is empty when the own name does not resolve, which is common and no error.
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

// In returns the host's address in a network, the first if it has several.
func In(network netip.Prefix) (netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, addr := range addrs {
		if own, err := netip.ParsePrefix(addr.String()); err == nil && network.Contains(own.Addr()) {
			return own.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the host has no address in %s", network)
}
