package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

func TestACleanupRunsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "lock")
	nobody, made, err := beAlone(path)
	if err != nil || !made {
		t.Fatalf("where no netplugin has ever run: made %t, %v", made, err)
	}
	if _, err := bePresent(path); !fault.Is(err, fault.Conflict) {
		t.Errorf("the first netplugin while a cleanup runs: %v", err)
	}
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	one, err := bePresent(path)
	if err != nil {
		t.Fatal(err)
	}
	successor, err := bePresent(path)
	if err != nil {
		t.Fatalf("a second netplugin: %v", err)
	}
	for _, present := range []interface{ Close() error }{one, successor} {
		if _, _, err := beAlone(path); !fault.Is(err, fault.Conflict) {
			t.Errorf("a cleanup while a netplugin runs: %v", err)
		}
		if err := present.Close(); err != nil {
			t.Fatal(err)
		}
	}
	alone, _, err := beAlone(path)
	if err != nil {
		t.Fatalf("a cleanup when all have gone: %v", err)
	}
	if _, err := bePresent(path); !fault.Is(err, fault.Conflict) {
		t.Errorf("a netplugin while a cleanup runs: %v", err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
}
