package pipeline

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// The changes that switches make to frames, with their checksums.

// routed returns a frame after a router: new MACs, hop limit decremented.
func routed(frame []byte, to mac) []byte { return routedFrom(frame, AnycastMAC, to) }

func routedFrom(frame []byte, from, to mac) []byte {
	at, sums := 22, []int{24}
	if isIPv6(frame) {
		at, sums = 21, nil
	}
	return withMACs(replaced(frame, at, []byte{frame[at] - 1}, sums...), from, to)
}

func withMACs(frame []byte, from, to mac) []byte {
	return bytes.Join([][]byte{to[:], from[:], frame[12:]}, nil)
}

// withDSCP returns a frame with a DSCP, unchanged if that is 0.
func withDSCP(frame []byte, dscp byte) []byte {
	if dscp == 0 {
		return frame
	}
	if isIPv6(frame) {
		class := dscp<<2 | frame[15]>>4&3
		return replaced(frame, 14, []byte{0x60 | class>>4, class<<4 | frame[15]&0xf})
	}
	return replaced(frame, 15, []byte{dscp<<2 | frame[15]&3}, 24)
}

// withSource and withDestination return a frame with another address.
func withSource(frame []byte, a netip.Addr) []byte { return withAddress(frame, 26, 22, a) }

func withDestination(frame []byte, a netip.Addr) []byte { return withAddress(frame, 30, 38, a) }

func withAddress(frame []byte, at4, at6 int, a netip.Addr) []byte {
	_, protocol, sum := transportOf(frame)
	var sums []int
	if sum != 0 && protocol != 1 { // ICMP's does not include addresses
		sums = append(sums, sum)
	}
	if isIPv6(frame) {
		return replaced(frame, at6, a.AsSlice(), sums...)
	}
	return replaced(frame, at4, a.AsSlice(), append(sums, 24)...)
}

// withPort returns a frame with another port; place 0 is the source's, 2 the destination's. Later fragments have
// none.
func withPort(frame []byte, place int, port uint16) []byte {
	at, _, sum := transportOf(frame)
	if at == 0 {
		return frame
	}
	var sums []int
	if sum != 0 {
		sums = append(sums, sum)
	}
	return replaced(frame, at+place, binary.BigEndian.AppendUint16(nil, port), sums...)
}

func isIPv6(frame []byte) bool { return frame[14]>>4 == 6 }

// transportOf returns the offsets of the transport header and of its checksum; 0: there is none, as in later
// fragments.
func transportOf(frame []byte) (at int, protocol byte, sum int) {
	at, protocol = 34, frame[23]
	offset := binary.BigEndian.Uint16(frame[20:]) & 0x1fff
	if isIPv6(frame) {
		at, protocol, offset = 54, frame[20], 0
		if protocol == 44 {
			at, protocol, offset = 62, frame[54], binary.BigEndian.Uint16(frame[56:])&^7
		}
	}
	if offset != 0 {
		return 0, protocol, 0
	}
	switch protocol {
	case 1, 58:
		return at, protocol, at + 2
	case 6:
		return at, protocol, at + 16
	case 17:
		if frame[at+6]|frame[at+7] != 0 { // 0: not computed
			return at, protocol, at + 6
		}
	}
	return at, protocol, 0
}

// replaced returns a frame with other bytes at an offset; the checksums at the other offsets are updated (RFC
// 1624).
func replaced(frame []byte, at int, with []byte, sums ...int) []byte {
	out := bytes.Clone(frame)
	copy(out[at:], with)
	from, to := at&^1, (at+len(with)+1)&^1
	_, protocol, last := transportOf(frame)
	for _, sum := range sums {
		total := uint32(^binary.BigEndian.Uint16(out[sum:]))
		for i := from; i < to; i += 2 {
			total += uint32(^binary.BigEndian.Uint16(frame[i:])) + uint32(binary.BigEndian.Uint16(out[i:]))
		}
		for total > 0xffff {
			total = total>>16 + total&0xffff
		}
		if total = ^total & 0xffff; total == 0 && sum == last && protocol == 17 {
			total = 0xffff // 0 would mean none
		}
		binary.BigEndian.PutUint16(out[sum:], uint16(total))
	}
	return out
}
