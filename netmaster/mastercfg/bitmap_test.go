package mastercfg

import (
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

func TestLongBitmapsAreCompressed(t *testing.T) {
	b := NewBitmap(maxBitmapBits)
	for i := uint(0); i < maxBitmapBits; i += 1 << 10 {
		b.Set(i)
	}
	data, err := json.Marshal(b)
	if err != nil || len(data) > 256<<10 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	var back Bitmap
	if err := json.Unmarshal(data, &back); err != nil || !back.Equal(&b.BitSet) {
		t.Errorf("not the same: %v", err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(data) {
		t.Errorf("written in another way: %v", err)
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
