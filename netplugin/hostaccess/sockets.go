package hostaccess

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listener is a socket of the host that receives from any address.
type listener struct {
	protocol string // tcp or udp
	at       netip.AddrPort
	only6    bool // IPv6 socket that does not receive IPv4
}

// versions are the IP families, by the unspecified address of each.
var versions = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// takesAll reports whether the socket is bound to all addresses of an IP family.
func (l listener) takesAll(version netip.Addr) bool {
	a := l.at.Addr()
	return a == version || a == netip.IPv6Unspecified() && !l.only6
}

// takesFromAnybody is, by protocol, the state of sockets that receive from any address: listening TCP sockets, and
// UDP sockets that are not connected, which are in state "closed" in the kernel.
var takesFromAnybody = map[string]struct{ protocol, state uint8 }{
	"tcp": {unix.IPPROTO_TCP, netlink.TCP_LISTEN},
	"udp": {unix.IPPROTO_UDP, netlink.TCP_CLOSE},
}

// listeners returns the listeners of all processes of the host; none if the kernel does not support the query.
func listeners() (all []listener, err error) {
	for name, asked := range takesFromAnybody {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
			request.AddData(socketsOf{family, asked.protocol, 1 << asked.state})
			answers, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("sockets of the host, %s: %w", name, err)
			}
			for _, answer := range answers {
				if at, ok := localOf(answer); ok {
					all = append(all, listener{name, at, isOnly6(answer)})
				}
			}
		}
	}
	return all, nil
}

// socketsOf is a request for the sockets of an IP family and a protocol in certain states (struct
// inet_diag_req_v2).
type socketsOf struct {
	family, protocol uint8
	states           uint32
}

func (s socketsOf) Len() int { return 56 }

func (s socketsOf) Serialize() []byte {
	request := make([]byte, s.Len())
	request[0], request[1] = s.family, s.protocol
	nl.NativeEndian().PutUint32(request[4:], s.states)
	return request
}

// localOf returns the local address and port of a socket in a reply (struct inet_diag_msg).
func localOf(answer []byte) (netip.AddrPort, bool) {
	if len(answer) < 24 {
		return netip.AddrPort{}, false
	}
	port, from := binary.BigEndian.Uint16(answer[4:]), answer[8:24]
	if answer[0] == unix.AF_INET {
		from = from[:4]
	}
	a, ok := netip.AddrFromSlice(from)
	return netip.AddrPortFrom(a.Unmap(), port), ok
}

// isOnly6 reports whether the socket in a reply does not receive IPv4: listening sockets have an attribute for
// that after the message.
func isOnly6(answer []byte) bool {
	const message = 72
	if len(answer) < message {
		return false
	}
	attributes, err := nl.ParseRouteAttr(answer[message:])
	return err == nil && slices.ContainsFunc(attributes, func(a syscall.NetlinkRouteAttr) bool {
		return a.Attr.Type == netlink.INET_DIAG_SKV6ONLY && slices.Equal(a.Value[:min(1, len(a.Value))], []byte{1})
	})
}
