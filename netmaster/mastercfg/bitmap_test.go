package mastercfg

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"
)

func TestBitmapKeepsItsBitsAcrossTheStore(t *testing.T) {
	b := NewBitmap(256)
	b.Set(0).Set(5).Set(255)
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	// 256 bits, then words 0x21, 0, 0 and 1<<63, as the original controller wrote them.
	const want = `"AAAAAAAAAQAAAAAAAAAAIQAAAAAAAAAAAAAAAAAAAACAAAAAAAAAAA=="`
	if string(data) != want {
		t.Fatalf("encoded %s, want %s", data, want)
	}
	var back Bitmap
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Equal(&b.BitSet) {
		t.Fatalf("decoded %v, want %v", back.DumpAsBits(), b.DumpAsBits())
	}
}

// appendCompressed writes a long map as an older version did.
func appendCompressed(to, raw []byte) []byte {
	var short bytes.Buffer
	w, _ := flate.NewWriter(&short, flate.BestSpeed) // an error means that there is no such level
	_, _ = w.Write(raw)                              // a buffer takes everything
	_ = w.Close()
	return base64.URLEncoding.AppendEncode(append(to, compressed), short.Bytes())
}

func TestCompressedBitmapsAreRead(t *testing.T) {
	b := NewBitmap(maxBitmapBits)
	for i := uint(0); i < maxBitmapBits; i += 1 << 10 {
		b.Set(i)
	}
	raw := binary.BigEndian.AppendUint64(nil, uint64(b.Len()))
	for _, word := range b.Words() {
		raw = binary.BigEndian.AppendUint64(raw, word)
	}
	var back Bitmap
	if err := back.UnmarshalText(appendCompressed(nil, raw)); err != nil || !back.Equal(&b.BitSet) {
		t.Errorf("not the same: %v", err)
	}
}

func TestCompressedBitmapsAreBounded(t *testing.T) {
	bomb := appendCompressed(nil, make([]byte, 64<<20))
	var b Bitmap
	if err := b.UnmarshalText(bomb); err == nil {
		t.Error("64 MiB out of a few KiB are taken")
	}
	for _, damaged := range []string{"~", "~AAAA", "~????"} {
		if err := b.UnmarshalText([]byte(damaged)); err == nil {
			t.Errorf("%q is taken", damaged)
		}
	}
}

func FuzzBitmap(f *testing.F) {
	f.Add(`"AAAAAAAAAEAAAAAAAAAAIQ=="`)
	f.Add(`"//////////8AAAAAAAAAIQ=="`)
	f.Add(`""`)
	f.Add(`"~YmBgYGBgYGBgUAQEAAD__w=="`)
	f.Add(`7`)
	f.Fuzz(func(t *testing.T, text string) {
		var b Bitmap
		if json.Unmarshal([]byte(text), &b) != nil {
			return
		}
		if _, err := json.Marshal(b); err != nil {
			t.Fatalf("decoded %q but cannot encode it: %v", text, err)
		}
	})
}
