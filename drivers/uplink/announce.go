package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/announce"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/netspace"
)

// Outside neighbours send packets for an address of the host to the MAC that they have learned. The address
// gets another MAC when it moves from a link that is not the first one, or back to it, and when another link
// becomes the first: the host announces its addresses then, and when a link works again.

// announceLocal requests an announcement of the addresses on the local port if its MAC has changed since the
// last one, or addresses were added. A new keeper does not know, and announces.
func (b *Bridge) announceLocal() error {
	local, err := b.localPort()
	if fault.Is(err, fault.NotFound) {
		return nil // a notification follows when it is created
	} else if err != nil {
		return err
	}
	if mac := local.Attrs().HardwareAddr.String(); mac != b.told {
		b.told = mac
		b.other.Send()
	}
	return nil
}

// announceBack requests an announcement of the addresses that were moved back to a link.
func (b *Bridge) announceBack(name string) {
	b.mu.Lock()
	if !slices.Contains(b.given, name) {
		b.given = append(b.given, name)
	}
	b.mu.Unlock()
	b.other.Send()
}

// announce announces the local port's addresses, and those of links that have them back.
func (b *Bridge) announce(context.Context) {
	b.mu.Lock()
	names := append([]string{b.config.Bridge}, b.given...)
	b.mu.Unlock()
	for _, name := range names {
		if err := b.links.announce(name); err != nil && !fault.Is(err, fault.NotFound) {
			b.log.WithError(err).Warn("neighbours are not told where the host's addresses are")
		}
	}
}

// announce announces the addresses of a link to its neighbours.
func (l *links) announce(name string) error {
	link, err := l.byName(name)
	if err != nil {
		return err
	}
	mac := link.Attrs().HardwareAddr
	if len(mac) != 6 || link.Attrs().Flags&net.FlagUp == 0 {
		return nil // not Ethernet, or without neighbours
	}
	addresses, err := l.handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses of link %s: %w", name, err)
	}
	forwarding := "ipv6/conf/" + name + "/forwarding"
	settings, err := l.get(map[string]string{forwarding: ""})
	if err != nil {
		return err
	}
	sender := announce.Sender{MAC: [6]byte(mac), Router: settings[forwarding] == "1"}
	return netspace.In(l.ns, func() error {
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("packet socket: %w", err)
		}
		defer unix.Close(socket)
		var problems []error
		for _, a := range addresses {
			own, ok := netip.AddrFromSlice(a.IP)
			if !ok || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
				continue // another host may have it
			}
			if err := unix.Sendto(socket, sender.Frame(own.Unmap()), 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}); err != nil {
				problems = append(problems, fmt.Errorf("announce %s at link %s: %w", own, name, err))
			}
		}
		return errors.Join(problems...)
	})
}
