package main

import (
	"path/filepath"
	"testing"
)

// Each setting of a unit is one that a bed follows, or leaves out on purpose.
func TestTheUnitsOfTheDaemonsAreUnderstood(t *testing.T) {
	units, err := filepath.Glob("../../../scripts/systemd/*.service")
	if err != nil || len(units) < 2 {
		t.Fatalf("%q, %v", units, err)
	}
	for _, path := range units {
		if _, err := readUnit(path); err != nil {
			t.Error(err)
		}
	}
}
