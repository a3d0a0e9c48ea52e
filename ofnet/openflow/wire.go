package openflow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// encoder appends to a message. The first error is retained.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) u8(n uint8)   { e.b = append(e.b, n) }
func (e *encoder) u16(n uint16) { e.b = binary.BigEndian.AppendUint16(e.b, n) }
func (e *encoder) u32(n uint32) { e.b = binary.BigEndian.AppendUint32(e.b, n) }
func (e *encoder) u64(n uint64) { e.b = binary.BigEndian.AppendUint64(e.b, n) }
func (e *encoder) raw(b []byte) { e.b = append(e.b, b...) }

func (e *encoder) zeros(n int) {
	for range n {
		e.b = append(e.b, 0)
	}
}

// pad8 pads the bytes since start to a multiple of 8.
func (e *encoder) pad8(start int) { e.zeros((8 - (len(e.b)-start)%8) % 8) }

// length writes the number of bytes since start into the 16 bits at offset at.
func (e *encoder) length(at, start int) {
	n := len(e.b) - start
	if n > 0xffff {
		e.fail("%d bytes do not fit into a length of 16 bits", n)
		return
	}
	binary.BigEndian.PutUint16(e.b[at:], uint16(n))
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// decoder reads a message. Reading past the end yields zeros and sets an error that is retained; no
// result is larger than the input.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.b = nil
}

// more reports whether unread bytes are left.
func (d *decoder) more() bool { return d.err == nil && len(d.b) > 0 }

// take returns the next n bytes as a slice of the message, not a copy.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("%d bytes where %d are needed", len(d.b), n)
		return nil
	}
	head := d.b[:n:n]
	d.b = d.b[n:]
	return head
}

func (d *decoder) skip(n int) { d.take(n) }

func (d *decoder) u8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// copied returns a copy of the next n bytes; nil for none.
func (d *decoder) copied(n int) []byte { return append([]byte(nil), d.take(n)...) }

// rest returns a copy of all remaining bytes.
func (d *decoder) rest() []byte { return d.copied(len(d.b)) }

// sub returns a decoder for the next n bytes.
func (d *decoder) sub(n int) *decoder {
	b := d.take(n)
	return &decoder{b: b, err: d.err}
}

// join sets the error of a part as the error of the whole.
func (d *decoder) join(part *decoder, what string) {
	if part.err != nil && d.err == nil {
		d.fail("%s: %w", what, part.err)
	}
}

// element returns a decoder for the next element of a list. The length of the element, at the given
// offset, includes its header and is a multiple of 8.
func (d *decoder) element(at int) *decoder {
	if at+2 > len(d.b) {
		d.fail("%d bytes of an element where %d are needed", len(d.b), at+2)
		return &decoder{err: d.err}
	}
	n := int(binary.BigEndian.Uint16(d.b[at:]))
	if n < at+2 {
		d.fail("an element that claims %d bytes", n)
		return &decoder{err: d.err}
	}
	return d.sub(n)
}

// properties reads all properties. Each is padded to 8 bytes, which its length excludes; the padding
// of the last may be missing.
func (d *decoder) properties(read func(kind uint16, body *decoder)) {
	for d.more() {
		kind, n := d.u16(), int(d.u16())
		body := d.sub(n - 4)
		read(kind, body)
		d.join(body, fmt.Sprintf("property %d", kind))
		d.skip(min(len(d.b), (8-n%8)%8))
	}
}

// duration appends seconds and nanoseconds.
func (e *encoder) duration(t time.Duration) {
	e.u32(uint32(t / time.Second))
	e.u32(uint32(t % time.Second))
}

// duration reads seconds and nanoseconds.
func (d *decoder) duration() time.Duration {
	seconds, nanos := d.u32(), d.u32()
	return time.Duration(seconds)*time.Second + time.Duration(nanos)
}

// text reads a string of n bytes that ends at the first zero.
func (d *decoder) text(n int) string {
	text, _, _ := bytes.Cut(d.take(n), []byte{0})
	return string(text)
}
