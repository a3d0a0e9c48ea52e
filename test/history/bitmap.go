package history

import (
	"encoding/base64"
	"encoding/binary"
)

// bits is a bit set in the encoding of the specification: base64, URL-safe and
// padded, of the length in bits and 64-bit words, all big-endian.
type bits []bool

func bitsUpTo(length, first, last int) bits {
	b := make(bits, length)
	for i := first; i <= last; i++ {
		b[i] = true
	}
	return b
}

func (b bits) text() string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(len(b)))
	for at := 0; at < len(b); at += 64 {
		var word uint64
		for i := at; i < min(at+64, len(b)); i++ {
			if b[i] {
				word |= 1 << (i - at)
			}
		}
		raw = binary.BigEndian.AppendUint64(raw, word)
	}
	return base64.URLEncoding.EncodeToString(raw)
}

// parseBits parses a bit set; an invalid one is empty.
func parseBits(text any) bits {
	s, _ := text.(string)
	raw, err := base64.URLEncoding.DecodeString(s)
	if err != nil || len(raw) < 8 {
		return nil
	}
	length := binary.BigEndian.Uint64(raw)
	if length > uint64(len(raw)-8)*8 {
		return nil
	}
	b := make(bits, length)
	for i := range b {
		b[i] = binary.BigEndian.Uint64(raw[8+i/64*8:])>>(i%64)&1 == 1
	}
	return b
}
