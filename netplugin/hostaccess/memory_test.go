package hostaccess

import (
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// Without the file no cleanup can put the host's settings back: the agent says so while nothing else is wrong, too.
func TestADamagedRecordOfTheHostsSettingsIsAProblemWithARemedy(t *testing.T) {
	testkit.NeedsMachine(t)
	m := New(Config{Datapath: nothingWanted{}, Switch: Switch{Netdev: func() bool { return true }}, StateDir: t.TempDir()})
	path := m.StateDir + "/" + memoryFile
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.look(t.Context()); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a damaged record: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := m.look(t.Context()); err != nil {
		t.Errorf("when it is removed: %v", err)
	}
}
