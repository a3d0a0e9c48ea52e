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

func FuzzBitmap(f *testing.F) {
	f.Add(`"AAAAAAAAAEAAAAAAAAAAIQ=="`)
	f.Add(`"//////////8AAAAAAAAAIQ=="`)
	f.Add(`""`)
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
