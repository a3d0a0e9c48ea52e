// Package vlanlink creates VLAN interfaces, as `ip link add link TRUNK name NAME type vlan id VLAN` does, also on
// kernels built without 802.1Q devices.
//
// The interface is one end of a veth pair. tc programs at the ingress hooks connect the other end to the trunk:
//
//	NAME --- NAME~ --- pushes the tag -----> TRUNK
//	NAME --- NAME~ <-- pops the tag -------- TRUNK
//
// Untagged frames of the trunk are not affected; those of a VLAN without an interface are dropped. The kernel
// keeps the programs as long as the links; no process has to run.
package vlanlink

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Add creates the interface of a VLAN of trunk in a network namespace, and sets it up. The caller has to delete it
// before the trunk.
func Add(ns netns.NsHandle, trunk, name string, vlan uint16) error {
	if err := add(ns, trunk, name, vlan); err != nil {
		return fmt.Errorf("interface %s of VLAN %d at %s: %w", name, vlan, trunk, err)
	}
	return nil
}

func add(ns netns.NsHandle, trunk, name string, vlan uint16) error {
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer handle.Close()
	outer, err := handle.LinkByName(trunk)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, outer.Attrs().MTU
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "~"}
	if err := handle.LinkAdd(pair); err != nil {
		return err
	}
	inner, err := handle.LinkByName(pair.PeerName)
	if err != nil {
		return err
	}
	for _, l := range []netlink.Link{inner, pair} {
		if err := handle.LinkSetUp(l); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		link     netlink.Link
		priority uint16
		program  []instruction
	}{
		{inner, 1, push(vlan, outer.Attrs().Index)},
		{outer, vlan, pop(vlan, inner.Attrs().Index)},
		{outer, lastPriority, dropTagged()},
	} {
		if err := attach(handle, f.link, f.priority, f.program); err != nil {
			return fmt.Errorf("filter of %s: %w", f.link.Attrs().Name, err)
		}
	}
	return nil
}

// lastPriority is after the priorities of all VLANs.
const lastPriority = 5000

// attach runs a program on the ingress of a link; lower priorities run first.
func attach(handle *netlink.Handle, l netlink.Link, priority uint16, program []instruction) error {
	index := l.Attrs().Index
	err := handle.QdiscReplace(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}})
	if err != nil {
		return err
	}
	fd, err := load(program)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return handle.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: priority, Protocol: unix.ETH_P_ALL,
		},
		Fd: fd, Name: "vlan", DirectAction: true,
	})
}
