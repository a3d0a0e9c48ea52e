package attachment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/contiv/netplugin/utils/durable"
)

// BootsFile is the file with the boot ids of the machine, beside the checkpoints.
const BootsFile = "boots"

// mostBoots limits the number of recorded boots. Endpoints of an older boot were found in one of the later boots.
const mostBoots = 100

// Boots are the boots of this machine in which a server ran, by the kernel's boot ids.
//
// A checkpoint that has not reached the disk is lost in a power failure, and so are the containers. The store
// still has the endpoint, with the boot in which it was attached: an endpoint of an earlier boot without a
// checkpoint is unused. The ids are recorded because an unknown boot may be of another machine with the same host
// label.
type Boots struct {
	path  string
	ids   []string // oldest first; the last is the present one
	noted atomic.Bool
}

// OpenBoots returns the recorded boots and the present one, now. Call Note afterwards.
func OpenBoots(dir, now string) (*Boots, error) {
	b := &Boots{path: filepath.Join(dir, BootsFile)}
	data, err := os.ReadFile(b.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("former boots: %w; if it cannot be made readable, remove it: endpoints of pods that were lost with the power before then have to be removed by hand", err)
	}
	b.ids = strings.Fields(string(data))
	if len(b.ids) > 0 && b.Now() == now {
		b.noted.Store(true)
		return b, nil
	}
	b.ids = append(b.ids, now)
	b.ids = b.ids[max(0, len(b.ids)-mostBoots):]
	return b, nil
}

// Note records this boot on disk, once. If that fails, as with a full disk, the server works without, and retries.
func (b *Boots) Note() error {
	if b.noted.Load() {
		return nil
	}
	if err := durable.Write(b.path, []byte(strings.Join(b.ids, "\n")+"\n")); err != nil {
		return fmt.Errorf("this boot: %w", err)
	}
	b.noted.Store(true)
	return nil
}

// ForStore returns the boot id to store with endpoints; empty until it is on disk, since a later boot would not
// know it.
func (b *Boots) ForStore() string {
	if !b.noted.Load() {
		return ""
	}
	return b.Now()
}

// Now returns the id of this boot.
func (b *Boots) Now() string { return b.ids[len(b.ids)-1] }

// Ended reports whether id is that of an earlier boot of this machine.
func (b *Boots) Ended(id string) bool { return id != b.Now() && slices.Contains(b.ids, id) }

// Known reports whether id is that of any boot of this machine, earlier or present.
func (b *Boots) Known(id string) bool { return slices.Contains(b.ids, id) }
