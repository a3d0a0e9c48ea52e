package mastercfg

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bits-and-blooms/bitset"
)

// Bitmap is a bit set in the store's encoding: a JSON string of URL-safe, padded base64 of the big-endian bit
// length followed by big-endian words. In records of an older version a long map is a tilde and the base64 of
// the same bytes, compressed. The zero value is an empty map of length 0.
type Bitmap struct{ bitset.BitSet }

// NewBitmap returns a map of n clear bits.
func NewBitmap(n uint) Bitmap { return Bitmap{*bitset.New(n)} }

// maxBitmapBits limits what a decoder accepts: the addresses of a /8 subnet.
const maxBitmapBits = 1 << 24

// MarshalText writes the store's encoding; encoding/json puts it into quotes.
func (b Bitmap) MarshalText() ([]byte, error) { return b.appendText(nil), nil }

// MarshalJSON hides the method of the embedded set, which would take precedence.
func (b Bitmap) MarshalJSON() ([]byte, error) {
	return append(b.appendText([]byte{'"'}), '"'), nil
}

func (b Bitmap) appendText(to []byte) []byte {
	words := b.Words()
	raw := make([]byte, 8, 8+8*len(words))
	binary.BigEndian.PutUint64(raw, uint64(b.Len()))
	for _, word := range words {
		raw = binary.BigEndian.AppendUint64(raw, word)
	}
	return base64.URLEncoding.AppendEncode(to, raw)
}

// compressed is the first character of a compressed map; base64 does not contain it.
const compressed = '~'

// contentOf returns the bit length and the words in a text.
func contentOf(text []byte) ([]byte, error) {
	short, isShort := bytes.CutPrefix(text, []byte{compressed})
	raw, err := base64.URLEncoding.AppendDecode(nil, short)
	if err != nil || !isShort {
		return raw, err
	}
	return io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxBitmapBits/8+8+1))
}

// UnmarshalJSON reads the store's encoding. An empty string is an empty map.
func (b *Bitmap) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("bitmap: %w", err)
	}
	return b.UnmarshalText([]byte(text))
}

// UnmarshalText reads the store's encoding. The length in the value is checked
// against its content before anything is allocated for it.
func (b *Bitmap) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*b = Bitmap{}
		return nil
	}
	raw, err := contentOf(text)
	if err != nil {
		return fmt.Errorf("bitmap: %w", err)
	}
	if len(raw) < 8 {
		return fmt.Errorf("bitmap: %d bytes hold no length", len(raw))
	}
	bits := binary.BigEndian.Uint64(raw)
	if bits > maxBitmapBits || uint64(len(raw)-8) != (bits+63)/64*8 {
		return fmt.Errorf("bitmap: length %d does not fit %d bytes of content", bits, len(raw)-8)
	}
	words := make([]uint64, 0, (len(raw)-8)/8)
	for content := raw[8:]; len(content) > 0; content = content[8:] {
		words = append(words, binary.BigEndian.Uint64(content))
	}
	if spare := bits % 64; spare != 0 { // bits beyond the length would be counted
		words[len(words)-1] &= 1<<spare - 1
	}
	b.BitSet = *bitset.FromWithLength(uint(bits), words)
	return nil
}
