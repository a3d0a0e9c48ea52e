package attachment

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestFormerBootsOfThisMachineAreKnown(t *testing.T) {
	dir := t.TempDir()
	boot := func(id string) *Boots {
		t.Helper()
		b, err := OpenBoots(dir, id)
		if err == nil {
			err = b.Note()
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.ForStore() != id {
			t.Errorf("the store is to remember boot %q, not %q", b.ForStore(), id)
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
}

// A boot that is not on disk is not sent to the store as that of endpoints.
func TestABootThatCannotBeWrittenDownIsNotForTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	b, err := OpenBoots(dir, "now")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Note(); err == nil || b.ForStore() != "" || b.Now() != "now" {
		t.Errorf("%v: for the store %q, now %q", err, b.ForStore(), b.Now())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.Note(); err != nil || b.ForStore() != "now" {
		t.Errorf("tried again: %v, for the store %q", err, b.ForStore())
	}
}
