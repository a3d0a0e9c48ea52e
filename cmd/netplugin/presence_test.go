package main

import (
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

func TestACleanupRunsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "lock")
	nobody, err := beAlone(path)
	if err != nil || nobody.Close() != nil {
		t.Fatalf("where no netplugin has ever run: %v", err)
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
		if _, err := beAlone(path); !fault.Is(err, fault.Conflict) {
			t.Errorf("a cleanup while a netplugin runs: %v", err)
		}
		if err := present.Close(); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := beAlone(path)
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
