package ovsd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/utils/netspace"
)

// Prefixes of the names of an endpoint's veth pair: the host's end is a port of the
// switch; the pod's end is renamed in the pod.
const (
	hostLinkPrefix = "vvport"
	podLinkPrefix  = "vport"
)

func hostLinkName(n uint32) string { return hostLinkPrefix + strconv.FormatUint(uint64(n), 10) }

func podLinkOf(hostLink string) string {
	return podLinkPrefix + strings.TrimPrefix(hostLink, hostLinkPrefix)
}

// hostLinkNumber is the inverse of hostLinkName.
func hostLinkNumber(name string) (uint32, bool) {
	digits, ok := strings.CutPrefix(name, hostLinkPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && hostLinkName(uint32(n)) == name
}

// Overhead of VXLAN in bytes, by the IP family of the underlay, and limits of MTUs.
const (
	overheadIPv4 = 14 + 20 + 8 + 8
	overheadIPv6 = 14 + 40 + 8 + 8
	maxLinkMTU   = 9000
	defaultMTU   = 1500
)

// links makes and removes links in the namespace of the switch.
type links struct {
	handle *netlink.Handle
	ns     *netns.NsHandle // the switch's; nil: the process's
	group  uint32          // of the driver's links

	tunnelLinkMTU atomic.Int32 // of the link that had the tunnel address when one had it last; 0: none has been seen
}

func newLinks(ns *netns.NsHandle, group uint32) (*links, error) {
	l := &links{ns: ns, group: group}
	var err error
	if l.handle, err = netlink.NewHandleAt(l.at(), syscall.NETLINK_ROUTE, syscall.NETLINK_GENERIC); err != nil {
		return nil, fmt.Errorf("netlink of the switch's namespace: %w", err)
	}
	return l, nil
}

// at returns the switch's namespace.
func (l *links) at() netns.NsHandle {
	if l.ns == nil {
		return netns.None()
	}
	return *l.ns
}

func (l *links) close() { l.handle.Close() }

// kernelDatapath reports whether the kernel has a datapath for Open vSwitch.
// The query makes the kernel load the module if there is one.
func (l *links) kernelDatapath() (bool, error) {
	_, err := l.handle.GenlFamilyGet("ovs_datapath")
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.ENOENT):
		return false, nil
	}
	return false, fmt.Errorf("kernel datapath: %w", err)
}

// errTaken means that one of the two names is in use.
var errTaken = errors.New("link name is taken")

// hostMTU returns the MTU of the host's end of a link. It is large enough for all that a pod can send: a pod that
// has raised its own MTU gets errors for packets that are too big, by the switch.
func hostMTU(mtu int) int { return max(mtu, maxLinkMTU) }

// create makes the veth pair of an endpoint; the host's end is up. The pod's end is
// created in the pod's namespace: moving a link there would make the kernel wait for an RCU grace
// period, some 20 ms.
//
// After each change of a link that is up, ovs-vswitchd reads all links and routes
// again. So the link is configured before it is set up.
func (l *links) create(hostLink, endpointID string, mtu, podNetNS int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = hostLink
	attrs.MTU = hostMTU(mtu)
	attrs.Group = l.group
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: podLinkOf(hostLink), PeerMTU: uint32(mtu)}
	if podNetNS > 0 {
		link.PeerNamespace = netlink.NsFd(podNetNS)
	}
	if err := l.handle.LinkAdd(link); err != nil {
		if errors.Is(err, syscall.EEXIST) {
			return errTaken
		}
		return fmt.Errorf("link %s: %w", hostLink, err)
	}
	if err := l.complete(link, endpointID); err != nil {
		return errors.Join(fmt.Errorf("link %s: %w", hostLink, err), l.remove(hostLink))
	}
	return nil
}

// complete configures a link for the switch and sets it up. The alias marks a complete configuration: the keeper
// removes links without one, as the agent may have been killed while it made them.
func (l *links) complete(link netlink.Link, endpointID string) error {
	if err := l.keepOut(link); err != nil {
		return err
	}
	// The switch would set it when it opens the link, and would get a netlink event for that.
	if err := l.handle.SetPromiscOn(link); err != nil {
		return fmt.Errorf("promiscuous mode: %w", err)
	}
	if err := l.handle.LinkSetAlias(link, endpointID); err != nil {
		return fmt.Errorf("alias %q: %w", endpointID, err)
	}
	if err := l.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	return nil
}

// keepOut stops the host's IP stack from configuring a link of the switch: ovs-vswitchd reads every
// address and route again whenever any link changes. The link gets no IPv6 address even
// if IPv6 is turned on for all links of the host.
func (l *links) keepOut(link netlink.Link) error {
	err := l.handle.LinkSetIP6AddrGenMode(link, nl.IN6_ADDR_GEN_MODE_NONE)
	if err != nil && !errors.Is(err, syscall.EAFNOSUPPORT) { // there is no IPv6
		return fmt.Errorf("no IPv6 address: %w", err)
	}
	return l.isolate(link.Attrs().Name)
}

// isolated returns the sysctls, below /proc/sys/net, by which the host drops all packets from a link that belongs
// to the switch, unless rp_filter of all links is 2, which overrides that of the link (then package hostaccess
// drops them). With the userspace datapath the kernel still receives on the link, and the pod would reach the
// host, and what it forwards to, past the switch. No route leads to the link, so strict rp_filter drops every
// source; ARP for the host's addresses is not answered.
func isolated(link string) map[string]string {
	return map[string]string{"ipv4/conf/" + link + "/rp_filter": "1", "ipv4/conf/" + link + "/arp_ignore": "8", "ipv6/conf/" + link + "/disable_ipv6": "1"}
}

// isolate writes the sysctls of a link that differ from isolated.
func (l *links) isolate(name string) error {
	set := func() error {
		for setting, want := range isolated(name) {
			path := filepath.Join("/proc/sys/net", setting)
			is, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(is)) != want {
				err = os.WriteFile(path, []byte(want), 0)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // there is no IPv6
				return fmt.Errorf("setting %s: %w", setting, err)
			}
		}
		return nil
	}
	if l.ns == nil { // our own namespace; another one needs a thread of its own
		return set()
	}
	return netspace.In(l.ns, set)
}

// setUp sets a link up.
func (l *links) setUp(name string) error {
	link, err := l.handle.LinkByName(name)
	if err == nil {
		err = l.handle.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("link %s: set it up: %w", name, err)
	}
	return nil
}

// mtu returns the MTU of a link, and whether there is such a link.
func (l *links) mtu(name string) (mtu int, ok bool, err error) {
	link, err := l.handle.LinkByName(name)
	switch {
	case err == nil:
		return link.Attrs().MTU, true, nil
	case isNotFound(err):
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("link %s: %w", name, err)
}

// used reports whether the other end of a link is in another, existing network namespace. Interfaces of the
// host have both ends in the host's; a namespace that is deleted deletes the link.
func (l *links) used(name string) (bool, error) {
	link, err := l.handle.LinkByName(name)
	switch {
	case err == nil:
		return int32(link.Attrs().NetNsID) >= 0, nil // -1 if it is being deleted; the netlink library parses it as unsigned
	case isNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("link %s: %w", name, err)
}

// remove removes a link and thereby its peer. It succeeds if the link is
// gone already, such as with the pod's namespace.
func (l *links) remove(name string) error {
	link, err := l.handle.LinkByName(name)
	if err == nil {
		err = l.handle.LinkDel(link)
	}
	if err == nil || isNotFound(err) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return fmt.Errorf("link %s: %w", name, err)
}

// owned is the host's end of a link that we made.
type owned struct {
	name       string
	number     uint32
	mtu        int
	endpointID string // empty: the agent was killed while it made the link
	down       bool
}

// owns reports whether we made a link, in this run or an earlier one.
func (l *links) owns(link netlink.Link) (owned, bool) {
	attrs := link.Attrs()
	number, ok := hostLinkNumber(attrs.Name)
	end := owned{name: attrs.Name, number: number, mtu: attrs.MTU, endpointID: attrs.Alias, down: attrs.Flags&net.FlagUp == 0}
	return end, ok && attrs.Group == l.group && link.Type() == "veth"
}

// ours lists the host's ends of all links that we made.
func (l *links) ours() ([]owned, error) {
	list, err := l.list()
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	var ends []owned
	for _, link := range list {
		if end, ok := l.owns(link); ok {
			ends = append(ends, end)
		}
	}
	return ends, nil
}

// find returns the host's end with this name, if there is one and we made it.
func (l *links) find(name string) (end owned, ok bool, err error) {
	link, err := l.handle.LinkByName(name)
	switch {
	case isNotFound(err):
		return owned{}, false, nil
	case err != nil:
		return owned{}, false, fmt.Errorf("link %s: %w", name, err)
	}
	end, ok = l.owns(link)
	return end, ok, nil
}

// listTries limits how often a netlink dump is repeated because it was
// interrupted by a change (NLM_F_DUMP_INTR).
const listTries = 10

func (l *links) list() ([]netlink.Link, error) { return whole(l.handle.LinkList) }

// whole repeats a dump until no change has interrupted it.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	for range listTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// tunnelMTU returns the MTU inside a VXLAN tunnel from address vtep.
func (l *links) tunnelMTU(vtep netip.Addr) (int, error) {
	base, err := l.mtuAt(vtep)
	if err != nil {
		return 0, err
	}
	overhead := overheadIPv4
	if vtep.Is6() {
		overhead = overheadIPv6
	}
	return min(base, maxLinkMTU) - overhead, nil
}

// mtuAt returns the MTU of the link with the tunnel address. Until the node has that address, it is the MTU of
// Ethernet. If the address is gone later, as while ovs-vswitchd restarts and the address is on a port of it, it is
// the last MTU.
func (l *links) mtuAt(address netip.Addr) (int, error) {
	link, ok, err := l.withAddress(address)
	if err != nil {
		return 0, err
	}
	if ok {
		l.tunnelLinkMTU.Store(int32(link.Attrs().MTU))
	}
	return cmp.Or(int(l.tunnelLinkMTU.Load()), defaultMTU), nil
}

// withAddress finds the link that has the address.
func (l *links) withAddress(address netip.Addr) (_ netlink.Link, found bool, err error) {
	family := netlink.FAMILY_V4
	if address.Is6() {
		family = netlink.FAMILY_V6
	}
	addresses, err := whole(func() ([]netlink.Addr, error) { return l.handle.AddrList(nil, family) })
	if err != nil {
		return nil, false, fmt.Errorf("addresses: %w", err)
	}
	for _, a := range addresses {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || ip.Unmap() != address.Unmap() {
			continue
		}
		link, err := l.handle.LinkByIndex(a.LinkIndex)
		if err != nil {
			return nil, false, fmt.Errorf("link of address %s: %w", address, err)
		}
		return link, true, nil
	}
	return nil, false, nil
}

func isNotFound(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
