package bgp

import (
	"strings"
	"testing"
	"time"
)

func TestSessionsThatEndOftenFlapUntilTheirEndsAreForgotten(t *testing.T) {
	var none *flaps
	if text := none.text(time.Now()); text != "" {
		t.Errorf("without an end: %q", text)
	}
	begun, f := time.Now(), &flaps{}
	for i := range manyEnds {
		now := begun.Add(time.Duration(i) * time.Second)
		if text := f.text(now); text != "" {
			t.Errorf("after %d ends: %q", i, text)
		}
		f.add(now, "read-failed")
	}
	last := begun.Add((manyEnds - 1) * time.Second)
	if text := f.text(last); !strings.HasPrefix(text, "5 sessions") || !strings.HasSuffix(text, "the last one: read-failed") {
		t.Errorf("after %d ends: %q", manyEnds, text)
	}
	if text := f.text(begun.Add(flapWindow)); text == "" {
		t.Error("forgotten early")
	}
	if text := f.text(begun.Add(flapWindow + time.Second/2)); text != "" {
		t.Errorf("when the first end is forgotten: %q", text)
	}
	if f.forget(last.Add(2 * flapWindow)); len(f.ends) != 0 {
		t.Errorf("%d ends are kept", len(f.ends))
	}
}
