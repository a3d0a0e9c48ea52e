package border

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
)

// portDriver counts the interfaces that are removed.
type portDriver struct {
	drivers.NetworkDriver
	removed []string
}

func (d *portDriver) Update(drivers.Change) {}

func (d *portDriver) RemovePort(_ context.Context, id string) error {
	d.removed = append(d.removed, id)
	return nil
}

// A node may have stopped to be a router while netplugin did not run.
func TestTheInterfaceOfAnEarlierRunIsRemoved(t *testing.T) {
	d := &portDriver{}
	border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	border.settle(t.Context())
	if len(d.removed) > 0 {
		t.Error("removed before anything is known")
	}
	border.Update(drivers.Change{Replace: true})
	for range 2 {
		border.settle(t.Context())
	}
	if len(d.removed) != 1 || d.removed[0] != Interface {
		t.Errorf("removed %q", d.removed)
	}
}

func TestRoutesAreRecalledWhileTheyAreYoung(t *testing.T) {
	file := filepath.Join(t.TempDir(), "routes.json")
	text := `{"Routes":[{"Prefix":"198.51.100.0/24","Neighbour":"192.0.2.1","NextHop":"192.0.2.1"}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	recalled := func() int {
		border := New(Config{Driver: &portDriver{}, StateFile: file})
		border.Configure(&agent.BGP{Link: prefix("192.0.2.9/24")})
		return len(border.rib.learned)
	}
	if recalled() != 1 {
		t.Error("nothing of a moment ago")
	}
	for _, age := range []time.Duration{time.Hour, -time.Hour} {
		then := time.Now().Add(-age)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
		if recalled() != 0 {
			t.Errorf("routes of %s ago", age)
		}
	}
	New(Config{StateFile: file}).keepYoung()
	if recalled() != 1 {
		t.Error("nothing of a run that went on until now")
	}
}
