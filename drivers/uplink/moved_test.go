package uplink

import "testing"

// A link that is gone, or unchanged, leaves Undo nothing to do: it would need Open vSwitch.
func TestWhatIsAsItWasIsNotTold(t *testing.T) {
	config := Config{StateDir: t.TempDir(), Step: func(string) {}}
	moved, err := config.readRecord("")
	if err != nil {
		t.Fatal(err)
	}
	moved.Plain["gone0"], moved.Plain["lo"] = anyLink, anyLink
	if err := config.writeRecord(moved); err != nil {
		t.Fatal(err)
	}
	if lines, err := Moved(config); len(lines) > 0 || err != nil {
		t.Errorf("told: %q, %v", lines, err)
	}
}
