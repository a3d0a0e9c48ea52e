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

// What netlink has no message for. These work on the link of a name in the
// namespace of the calling thread.

// configure writes the settings of the interface that its addresses ask for.
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

// ignoreRouters keeps what routers advertise, and redirect to, from the interface: its addresses and routes are those of the
// specification. From an address that it makes itself, of a prefix that a router of the VLAN tells everybody, the
// switch lets nothing pass.
func ignoreRouters(name string) error {
	for _, setting := range []string{"accept_ra", "autoconf", "accept_redirects"} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+setting, []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // there is no IPv6
			return fmt.Errorf("have %s ignore routers: %w", name, err)
		}
	}
	return nil
}

// enableIPv6 undoes what some runtimes do to every new namespace.
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

// announce sets the kernel's own announcements: gratuitous ARP requests, and
// neighbour advertisements where there is IPv6.
func announce(name string) error {
	for _, setting := range []string{"ipv4/conf/" + name + "/arp_notify", "ipv6/conf/" + name + "/ndisc_notify"} {
		err := os.WriteFile("/proc/sys/net/"+setting, []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("announce addresses of %s: %w", name, err)
		}
	}
	return nil
}

// setTxChecksum is the request ETHTOOL_STXCSUM: the one for all protocols. Their
// features by name would first have to be asked for, a dozen kilobytes of text.
const setTxChecksum = 0x17

// checksumInSoftware has the kernel fill in the checksums of TCP, UDP and SCTP.
// Segmentation offload depends on that and goes with it.
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
		_     [16]byte // the rest of a struct ifreq
	}{value: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(&value)
	if errno != 0 {
		return fmt.Errorf("turn off checksum offload of %s: %w", name, errno)
	}
	return nil
}
