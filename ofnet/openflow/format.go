package openflow

import (
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"strings"
)

// formatter prints the value of a field of the given width, and the mask unless it is all ones.
type formatter func(v, mask Value, width int) string

// masked adds the mask to a printed value.
func masked(v, mask Value, width int, print func(Value) string) string {
	if mask == ones(width) {
		return print(v)
	}
	return print(v) + "/" + print(mask)
}

// hex prints a value as printf's %#x does: no prefix for zero.
func hex(v Value) string {
	switch {
	case v.IsZero():
		return "0"
	case v.Hi == 0:
		return fmt.Sprintf("%#x", v.Lo)
	default:
		return fmt.Sprintf("%#x%016x", v.Hi, v.Lo)
	}
}

func dec(v Value) string { return fmt.Sprint(v.Lo) }

func hexadecimal(v, mask Value, width int) string { return masked(v, mask, width, hex) }

func decimal(v, mask Value, width int) string { return masked(v, mask, width, dec) }

// masked16 prints numbers such as ports, which are hexadecimal only with a mask.
func masked16(v, mask Value, width int) string {
	if mask == ones(width) {
		return dec(v)
	}
	return masked(v, mask, width, func(v Value) string { return fmt.Sprintf("%#x", v.Lo) })
}

func hex16(v, mask Value, width int) string {
	return masked(v, mask, width, func(v Value) string { return fmt.Sprintf("%#04x", v.Lo) })
}

func flowLabel(v, mask Value, width int) string {
	return masked(v, mask, width, func(v Value) string { return fmt.Sprintf("0x%05x", v.Lo) })
}

func macAddress(v, mask Value, width int) string {
	return masked(v, mask, width, func(v Value) string {
		b := v.bytes16()
		return net.HardwareAddr(b[10:]).String()
	})
}

// ipAddress prints an IPv4 or IPv6 address, depending on the width of the field.
func ipAddress(v, mask Value, width int) string {
	if length, ok := mask.prefixLen(width); ok && length < width {
		return fmt.Sprintf("%s/%d", ipString(v, width), length)
	}
	return masked(v, mask, width, func(v Value) string { return ipString(v, width) })
}

func ipString(v Value, width int) string {
	b := v.bytes16()
	addr, _ := netip.AddrFromSlice(b[16-width/8:])
	return addr.String()
}

// portNames are the reserved ports that have a name.
var portNames = map[uint32]string{
	PortInPort: "IN_PORT", PortTable: "TABLE", PortNormal: "NORMAL", PortFlood: "FLOOD",
	PortAll: "ALL", PortController: "CONTROLLER", PortLocal: "LOCAL", PortAny: "ANY",
}

func portName(port uint32) string {
	if name, ok := portNames[port]; ok {
		return name
	}
	return fmt.Sprint(port)
}

func portNumber(v, _ Value, _ int) string { return portName(uint32(v.Lo)) }

// Names of the bits, lowest first.
var (
	ctStateNames = []string{"new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"}
	tcpFlagBits  = []string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"}
)

func ctStateFlags(v, mask Value, _ int) string {
	return flags(v.Lo, mask.Lo, uint64(ctStateAll), ctStateNames)
}

func tcpFlagNames(v, mask Value, width int) string {
	return flags(v.Lo, mask.Lo, ones(width).Lo, tcpFlagBits)
}

// flags prints bits by name: "syn|ack" if the mask has all of them, else "+syn-ack".
func flags(v, mask, all uint64, names []string) string {
	var b strings.Builder
	for rest := mask & all; rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros64(rest)
		set := v>>bit&1 != 0
		switch {
		case mask&all != all && set:
			b.WriteString("+" + names[bit])
		case mask&all != all:
			b.WriteString("-" + names[bit])
		case set && b.Len() > 0:
			b.WriteString("|" + names[bit])
		case set:
			b.WriteString(names[bit])
		}
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()
}

// fragments names the values and masks of nw_frag that have a name.
var fragments = map[[2]uint64]string{
	{0, 3}: "no", {1, 1}: "yes", {1, 3}: "first", {3, 3}: "later", {0, 2}: "not_later",
}

func fragment(v, mask Value, width int) string {
	if name, ok := fragments[[2]uint64{v.Lo, mask.Lo}]; ok {
		return name
	}
	return hexadecimal(v, mask, width)
}
