package ovsd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/netspace"
)

// ofNames finds the host's end of our link to the name server.
func (l *links) ofNames(name string) (link netlink.Link, there bool, err error) {
	link, err = l.handle.LinkByName(name)
	switch {
	case isNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("link %s: %w", name, err)
	case link.Attrs().Group != l.group || link.Type() != "veth":
		return nil, false, fault.New(fault.Conflict, "link %s is somebody else's", name)
	}
	return link, true, nil
}

// joined reports whether the host's end of the link and the one in the name server's namespace exist and
// are ends of one veth pair.
func (l *links) joined(name string, inside *links) (bool, error) {
	outer, there, err := l.ofNames(name)
	if err != nil || !there {
		return false, err
	}
	inner, err := inside.handle.LinkByName(namesInside)
	if isNotFound(err) {
		return false, nil
	}
	return err == nil && inner.Attrs().ParentIndex == outer.Attrs().Index && outer.Attrs().ParentIndex == inner.Attrs().Index, err
}

// createNames makes the veth pair; setUpNames configures it.
func (l *links) createNames(name string, inside netns.NsHandle) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Group, attrs.Alias = name, l.group, namesAlias
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: namesInside, PeerNamespace: netlink.NsFd(int(inside))}
	if err := l.handle.LinkAdd(link); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}

// setUpNames configures the end in the name server's namespace: MAC and IP addresses, no ARP, up.
func (l *links) setUpNames() error {
	link, err := l.handle.LinkByName(namesInside)
	if err != nil {
		return fmt.Errorf("link %s: %w", namesInside, err)
	}
	err = errors.Join(l.setUp("lo"), l.handle.LinkSetHardwareAddr(link, net.HardwareAddr(pipeline.NamesMAC[:])), l.handle.LinkSetARPOff(link))
	for _, p := range pipeline.NamesPrefixes() {
		if p.Addr().Is6() && !netspace.HasIPv6() {
			continue
		}
		own := netip.PrefixFrom(pipeline.NamesServer(p), p.Bits())
		err = errors.Join(err, l.handle.AddrReplace(link, &netlink.Addr{IPNet: inet.IPNet(own), Flags: unix.IFA_F_NODAD}))
	}
	return errors.Join(err, l.setUp(namesInside))
}

// checksumsInSoftware turns off checksum offload of the inner end: the userspace datapath does not compute checksums.
func checksumsInSoftware() error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer tool.Close()
	if err := tool.Change(namesInside, map[string]bool{"tx-checksum-ip-generic": false}); err != nil {
		return fmt.Errorf("link %s: checksums in software: %w", namesInside, err)
	}
	return nil
}
