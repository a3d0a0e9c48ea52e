package podlink_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/utils/announce"
)

// arpSize is how long a frame of ARP is, without padding.
const arpSize = 42

// It announces each address to the switch as soon as the link is up: by a gratuitous ARP request, and an
// unsolicited neighbour advertisement.
func TestAnInterfaceAnnouncesItsAddresses(t *testing.T) {
	n, _ := connect(t, "p9")
	hear := listen(t, "vp9")
	addresses := []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24"), netip.MustParsePrefix("fd00::9/64")}
	if _, err := configure(n, "p9", podlink.Spec{Name: "eth0", MAC: "02:02:0a:00:00:09", Announce: true, Addresses: addresses}); err != nil {
		t.Fatal(err)
	}
	sender, missing := announce.Sender{MAC: [6]byte{2, 2, 10, 0, 0, 9}}, map[netip.Addr][]byte{}
	for _, a := range addresses {
		missing[a.Addr()] = sender.Frame(a.Addr())
	}
	missing[addresses[0].Addr()] = missing[addresses[0].Addr()][:arpSize] // the kernel does not fill it up
	for len(missing) > 0 {
		frame := hear()
		if frame == nil {
			t.Fatalf("not announced: %v", missing)
		}
		for address, want := range missing {
			if bytes.Equal(frame, want) {
				delete(missing, address)
			}
		}
	}
}

// listen returns a function that returns the next frame that leaves a link; nil after some time without any.
func listen(t *testing.T, link string) func() []byte {
	t.Helper()
	in, err := net.InterfaceByName(link)
	if err != nil {
		t.Fatal(err)
	}
	const allProtocols = 0x0300 // ETH_P_ALL in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, allProtocols)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	patience := unix.NsecToTimeval((10 * time.Second).Nanoseconds())
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: in.Index}); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2048)
	return func() []byte {
		size, _, err := unix.Recvfrom(socket, buffer, 0)
		if err != nil {
			return nil
		}
		return buffer[:size]
	}
}
