package mastercfg

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/bits-and-blooms/bitset"
)

// Bitmap is a bit set in the store's encoding: a JSON string of URL-safe,
// padded base64 over the big-endian bit length followed by big-endian words.
// The zero value is an empty map of length 0.
type Bitmap struct{ bitset.BitSet }

// NewBitmap returns a map of n clear bits.
func NewBitmap(n uint) Bitmap { return Bitmap{*bitset.New(n)} }

// maxBitmapBits bounds what a decoder will accept: the addresses of a /8 subnet.
const maxBitmapBits = 1 << 24

// MarshalJSON writes the store's encoding.
func (b Bitmap) MarshalJSON() ([]byte, error) { return b.BitSet.MarshalJSON() }

// UnmarshalJSON reads the store's encoding. The length in the value is checked
// against its content before anything is allocated for it; an empty string is
// an empty map.
func (b *Bitmap) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("bitmap: %w", err)
	}
	if text == "" {
		*b = Bitmap{}
		return nil
	}
	raw, err := base64.URLEncoding.DecodeString(text)
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
	var set bitset.BitSet
	if err := set.UnmarshalBinary(raw); err != nil {
		return fmt.Errorf("bitmap: %w", err)
	}
	b.BitSet = set
	return nil
}
