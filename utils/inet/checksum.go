// Package inet has common parts of the Internet protocols.
package inet

import "encoding/binary"

// Checksum returns the checksum of RFC 1071 over some bytes and a sum, such as that of a pseudo header.
func Checksum(b []byte, sum uint32) uint16 {
	sum = Sum(b, sum)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// Sum adds bytes, in pairs, to a sum. The total must be less than 128 KiB.
func Sum(b []byte, sum uint32) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}
