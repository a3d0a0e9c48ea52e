// Package inet has what the Internet protocols have in common.
package inet

import "encoding/binary"

// Checksum is that of RFC 1071 over some bytes and a sum, such as that of a pseudo header.
func Checksum(b []byte, sum uint32) uint16 {
	sum = Sum(b, sum)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// Sum adds bytes, in pairs, to a sum. There must be less than 128 KiB in all.
func Sum(b []byte, sum uint32) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}
