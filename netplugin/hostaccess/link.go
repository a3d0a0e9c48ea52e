package hostaccess

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/netspace"
)

// wantedLink is the wanted state of an interface of the host. All of it is managed: other addresses are removed,
// and so are other routes with routeProtocol.
type wantedLink struct {
	name               string
	mac                net.HardwareAddr
	mtu                int    // bytes
	group              uint32 // 0: unchanged
	addresses          []netip.Prefix
	routes             []wantedRoute
	noARP              bool     // neighbours are not resolved
	forwards           bool     // packets that arrive on it are forwarded
	checksumInSoftware bool     // for a userspace switch, which does not complete checksums
	sameWire           []string // links of the host to the same machines
}

// wantedRoute is a route to a subnet through a gateway, with a source address; without both, directly by the link.
type wantedRoute struct {
	to       netip.Prefix
	via, src netip.Addr
}

// infraGroup marks the host's interfaces in infra networks, for the rules and for operators (ip link show group
// 194).
const infraGroup = 194

// routeProtocol marks netplugin's routes (ip route show proto 168).
const routeProtocol netlink.RouteProtocol = 168

// ensure configures the other end of a port's veth pair as the wanted interface, and returns whether it had to
// change anything.
func (w wantedLink) ensure(port drivers.Port, ours *own) (changed bool, err error) {
	link, err := w.find(port)
	if err != nil {
		return false, err
	}
	ours.add(link.Attrs().Index)
	if !netspace.HasIPv6() {
		w = w.withoutIPv6()
	}
	for _, step := range []func(netlink.Link) (bool, error){w.rename, w.hardware, w.checksums, w.forward, w.address, w.up, w.route} {
		did, err := step(link)
		changed = changed || did
		if err != nil {
			return changed, fmt.Errorf("interface %s: %w", w.name, err)
		}
	}
	return changed, nil
}

// withoutIPv6 returns the interface for a kernel without IPv6.
func (w wantedLink) withoutIPv6() wantedLink {
	w.addresses = slices.DeleteFunc(slices.Clone(w.addresses), func(p netip.Prefix) bool { return p.Addr().Is6() })
	w.routes = slices.DeleteFunc(slices.Clone(w.routes), func(r wantedRoute) bool { return r.to.Addr().Is6() })
	return w
}

// find returns the other end of the port's link, under its initial or its final name.
func (w wantedLink) find(port drivers.Port) (netlink.Link, error) {
	inSwitch, err := netlink.LinkByName(port.HostLink)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", port.HostLink, err)
	}
	if link, err := netlink.LinkByName(w.name); err == nil {
		if link.Type() != "veth" || link.Attrs().ParentIndex != inSwitch.Attrs().Index {
			return nil, fault.New(fault.Conflict, "interface %s is there and is not ours: remove or rename it", w.name)
		}
		return link, nil
	}
	link, err := netlink.LinkByName(port.PodLink)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", port.PodLink, err)
	}
	return link, nil
}

// regain gives the other end of a port's link back the name that somebody has changed: rules, routes and everybody else
// know it by that name. A missing link is not an error here.
func regain(port drivers.Port, name string) (changed bool, err error) {
	inSwitch, err := netlink.LinkByName(port.HostLink)
	if err != nil || inSwitch.Attrs().NetNsID >= 0 { // its other end is in another namespace
		return false, nil
	}
	link, err := netlink.LinkByIndex(inSwitch.Attrs().ParentIndex)
	if err != nil || link.Type() != "veth" || link.Attrs().ParentIndex != inSwitch.Attrs().Index {
		return false, nil
	}
	has := link.Attrs().Name
	if has == name || has == port.PodLink {
		return false, nil
	}
	if err = netlink.LinkSetName(link, name); errors.Is(err, unix.EBUSY) { // older kernels rename only what is down
		err = errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, name))
	}
	if err != nil {
		return false, fmt.Errorf("interface %s: name it %s again: %w", has, name, err)
	}
	return true, nil
}

func (w wantedLink) rename(link netlink.Link) (bool, error) {
	if link.Attrs().Name == w.name {
		return false, nil
	}
	return true, netlink.LinkSetName(link, w.name)
}

func (w wantedLink) hardware(link netlink.Link) (changed bool, err error) {
	if have := link.Attrs().HardwareAddr; !slices.Equal(have, w.mac) {
		changed, err = true, netlink.LinkSetHardwareAddr(link, w.mac)
	}
	if have := link.Attrs().MTU; err == nil && w.mtu != 0 && have != w.mtu {
		changed, err = true, netlink.LinkSetMTU(link, w.mtu)
	}
	if err == nil && w.group != 0 && link.Attrs().Group != w.group {
		changed, err = true, netlink.LinkSetGroup(link, int(w.group))
	}
	if silent := link.Attrs().RawFlags&unix.IFF_NOARP != 0; err == nil && w.noARP && !silent {
		changed, err = true, netlink.LinkSetARPOff(link)
	}
	return changed, err
}

// txChecksums are the kernel's names of the features that leave checksums to the device.
var txChecksums = []string{"tx-checksum-ip-generic", "tx-checksum-sctp"}

func (w wantedLink) checksums(netlink.Link) (changed bool, err error) {
	if !w.checksumInSoftware {
		return false, nil
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return false, fmt.Errorf("ethtool: %w", err)
	}
	defer tool.Close()
	have, err := tool.Features(w.name)
	if err != nil {
		return false, fmt.Errorf("offload features: %w", err)
	}
	off := map[string]bool{}
	for _, feature := range txChecksums {
		if have[feature] {
			off[feature] = false
		}
	}
	if len(off) == 0 {
		return false, nil
	}
	if err := tool.Change(w.name, off); err != nil {
		return false, fmt.Errorf("turn off checksum offload: %w", err)
	}
	return true, nil
}

// forward makes the host forward packets that arrive on the interface. The global setting is not enough: it may be
// switched off for this interface, or for new ones.
func (w wantedLink) forward(netlink.Link) (changed bool, err error) {
	setting := "ipv4/conf/" + w.name + "/forwarding"
	if !w.forwards || read(setting) != "0" {
		return false, nil
	}
	return true, write(setting, "1")
}

func (w wantedLink) address(link netlink.Link) (changed bool, err error) {
	have, err := netlink.AddrList(link, unix.AF_UNSPEC)
	if err != nil {
		return false, fmt.Errorf("addresses: %w", err)
	}
	missing := slices.Clone(w.addresses)
	for _, a := range have {
		p := inet.PrefixOf(a.IPNet)
		if i := slices.Index(missing, p); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			continue
		}
		if a.IP.IsLinkLocalUnicast() {
			continue // the kernel's own route
		}
		if err := netlink.AddrDel(link, &a); err != nil {
			return changed, fmt.Errorf("remove address %s: %w", p, err)
		}
		changed = true
	}
	for _, p := range missing {
		a := &netlink.Addr{IPNet: inet.IPNet(p)}
		if p.Addr().Is6() {
			if err := w.prepareIPv6(); err != nil {
				return changed, err
			}
			a.Flags = unix.IFA_F_NODAD // the store assigns an address to one host only
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return changed, fmt.Errorf("address %s: %w", p, err)
		}
		changed = true
	}
	return changed, nil
}

// prepareIPv6 enables IPv6, where it is disabled for new interfaces, and disables router advertisements: this link
// has no routers.
func (w wantedLink) prepareIPv6() error {
	for setting, value := range map[string]string{"disable_ipv6": "0", "accept_ra": "0", "accept_redirects": "0"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+w.name+"/"+setting, []byte(value), 0); err != nil {
			return fmt.Errorf("IPv6: %w", err)
		}
	}
	return nil
}

func (w wantedLink) up(link netlink.Link) (bool, error) {
	if link.Attrs().Flags&net.FlagUp != 0 {
		return false, nil
	}
	return true, netlink.LinkSetUp(link)
}

func (w wantedLink) route(link netlink.Link) (changed bool, err error) {
	filter := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: routeProtocol}
	have, err := netlink.RouteListFiltered(unix.AF_UNSPEC, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return false, fmt.Errorf("routes: %w", err)
	}
	missing := slices.Clone(w.routes)
	for _, r := range have {
		if i := slices.Index(missing, routeOf(r)); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			continue
		}
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return changed, fmt.Errorf("remove route %s: %w", r, err)
		}
		changed = true
	}
	var problems []error
	for _, r := range missing {
		add := &netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: inet.IPNet(r.to), Gw: r.via.AsSlice(), Src: r.src.AsSlice(),
			Protocol: routeProtocol,
		}
		if !r.via.IsValid() {
			add.Scope = netlink.SCOPE_LINK
		}
		err := netlink.RouteAdd(add)
		switch {
		case errors.Is(err, unix.EEXIST):
			err = fault.New(fault.Conflict, "route to %s: somebody else's is there and stays", r.to)
		case err != nil:
			err = fmt.Errorf("route to %s via %s: %w", r.to, r.via, err)
		default:
			changed = true
		}
		problems = append(problems, err)
	}
	return changed, errors.Join(problems...)
}

func routeOf(r netlink.Route) wantedRoute {
	return wantedRoute{to: inet.PrefixOf(r.Dst), via: inet.AddrOf(r.Gw), src: inet.AddrOf(r.Src)}
}
