package podlink

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Settings without a netlink message. The functions apply to the link with a name in the network namespace of the
// calling thread.

// configure writes the settings of the interface that its addresses require.
func (i *Interface) configure(spec Spec) error {
	six := slices.ContainsFunc(spec.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() })
	if !six && !spec.Announce {
		return nil
	}
	return i.netns.run(func() error {
		if six {
			if err := enableIPv6(i.name); err != nil {
				return err
			}
		}
		if spec.Announce {
			return announce(i.name)
		}
		return nil
	})
}

// ignoreRouters makes the interface ignore router advertisements and redirects: its addresses and routes are those
// of spec. The switch would drop packets from an address that the container derives from an advertised prefix.
func ignoreRouters(name string) error {
	for _, setting := range []string{"accept_ra", "autoconf", "accept_redirects"} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+setting, []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the kernel has no IPv6
			return fmt.Errorf("have %s ignore routers: %w", name, err)
		}
	}
	return nil
}

// enableIPv6 enables IPv6, which some runtimes disable in every new namespace.
func enableIPv6(name string) error {
	path := "/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6"
	value, err := os.ReadFile(path)
	if err == nil && len(value) > 0 && value[0] == '1' {
		err = os.WriteFile(path, []byte("0"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("enable IPv6 on %s: %w", name, err)
	}
	return nil
}

// announce sets the kernel's own announcements: gratuitous ARP, and with IPv6 unsolicited neighbour
// advertisements.
func announce(name string) error {
	for _, setting := range []string{"ipv4/conf/" + name + "/arp_notify", "ipv6/conf/" + name + "/ndisc_notify"} {
		err := os.WriteFile("/proc/sys/net/"+setting, []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("announce addresses of %s: %w", name, err)
		}
	}
	return nil
}

// setTxChecksum is the request ETHTOOL_STXCSUM, for all protocols at once. For the features by name, a dozen
// kilobytes of names would have to be read first.
const setTxChecksum = 0x17

// checksumInSoftware makes the kernel compute the checksums of TCP, UDP and SCTP. That also turns segmentation
// offload off, which depends on it.
func checksumInSoftware(name string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("turn off checksum offload of %s: %w", name, err)
	}
	defer unix.Close(socket)
	value := struct{ command, data uint32 }{command: setTxChecksum}
	request := struct {
		name  [unix.IFNAMSIZ]byte
		value unsafe.Pointer
		_     [16]byte // rest of struct ifreq
	}{value: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(&value)
	if errno != 0 {
		return fmt.Errorf("turn off checksum offload of %s: %w", name, errno)
	}
	return nil
}
