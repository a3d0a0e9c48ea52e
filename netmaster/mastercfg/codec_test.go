package mastercfg

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRecordsWithMapsHaveTheCodingOfEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := CfgNetworkState{
			ID: rapid.String().Draw(t, "id"), NetworkTag: rapid.SampledFrom([]string{"", `"ipAllocMap":"AA`, `\"`}).Draw(t, "tag"),
			EpCount: rapid.Int().Draw(t, "epCount"), IPAllocMap: NewBitmap(rapid.UintRange(0, 300).Draw(t, "bits")),
		}
		for _, bit := range rapid.SliceOf(rapid.UintRange(0, 299)).Draw(t, "set") {
			if bit < n.IPAllocMap.Len() {
				n.IPAllocMap.Set(bit)
			}
		}
		want, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatal(diff)
		}
		var back CfgNetworkState
		if err := back.Decode(got); err != nil {
			t.Fatal(err)
		}
		if again, _ := back.Encode(); string(again) != string(got) {
			t.Fatalf("decoded and encoded again:\n%s\nwant\n%s", again, got)
		}
	})
}

// FuzzDecodeRecord: what encoding/json accepts Decode accepts with the same
// result, and nothing else.
func FuzzDecodeRecord(f *testing.F) {
	n := CfgNetworkState{ID: "web.blue", IPAllocMap: NewBitmap(64)}
	seed, _ := n.Encode()
	f.Add(string(seed))
	f.Add(`{"ipAllocMap":""}`)
	f.Add(`{"ipAllocMap":"AAAAAAAAAEAAAAAAAAAAIQ=="`)
	f.Add(`{"ipAllocMap": "AAAAAAAAAEAAAAAAAAAAIQ==", "id":7}`)
	f.Add(`{"networkTag":"\"ipAllocMap\":\"","ipAllocMap":"AAAAAAAAAEAAAAAAAAAAIQ=="}`)
	f.Add(`{"ipAllocMap":"AAAAAAAAAEAAAAAAAAAAIQ==","ipAllocMap":"AAAAAAAAAEAAAAAAAAAAIQ==","ipAllocMap":""}`)
	f.Fuzz(func(t *testing.T, text string) {
		var fast, plain CfgNetworkState
		fastErr, plainErr := fast.Decode([]byte(text)), json.Unmarshal([]byte(text), &plain)
		if (fastErr == nil) != (plainErr == nil) {
			t.Fatalf("%q: %v, encoding/json says %v", text, fastErr, plainErr)
		}
		if fastErr != nil {
			return
		}
		a, _ := json.Marshal(fast)
		b, _ := json.Marshal(plain)
		if string(a) != string(b) {
			t.Fatalf("%q:\n%s\nencoding/json says\n%s", text, a, b)
		}
	})
}
