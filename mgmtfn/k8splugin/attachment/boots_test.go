package attachment

import (
	"fmt"
	"path/filepath"
	"testing"
)

func TestFormerBootsOfThisMachineAreKnown(t *testing.T) {
	dir := t.TempDir()
	boot := func(id string) Boots {
		t.Helper()
		b, err := OpenBoots(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	boot("first")
	for range 2 { // the server is started again
		if b := boot("second"); b.Now() != "second" || b.Ended("second") || !b.Ended("first") {
			t.Errorf("boots %+v", b)
		}
	}
	b := boot("third")
	for id, ended := range map[string]bool{"first": true, "second": true, "third": false, "of another machine": false, "": false} {
		if b.Ended(id) != ended {
			t.Errorf("boot %q: ended %v", id, b.Ended(id))
		}
	}
	for i := range mostBoots {
		b = boot(fmt.Sprint(i))
	}
	if len(b.ids) != mostBoots || b.Ended("third") || !b.Ended("0") || b.Now() != fmt.Sprint(mostBoots-1) {
		t.Errorf("boots %+v", b)
	}
	if _, err := OpenBoots(filepath.Join(dir, "gone"), "x"); err == nil {
		t.Error("a boot that cannot be written down is taken for known")
	}
}
