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

// BootsFile is the file, beside the checkpoints, with the boots of the machine.
const BootsFile = "boots"

// mostBoots bounds what is remembered. Endpoints of a boot so long ago were found at the ones since.
const mostBoots = 100

// Boots are the boots of this machine in which there was a server, by the kernel's ids.
//
// A checkpoint that has not reached the disk is lost with the power, and so are the containers.
// The store has what it was about, and says in which boot that was attached: what is of a
// former one, and has no checkpoint, nobody uses. The ids are kept, as a boot that this machine
// does not know of may be that of another one, which calls itself by the same host label.
type Boots struct {
	path  string
	ids   []string // the last one is that of now
	noted atomic.Bool
}

// OpenBoots returns the boot that the machine is in now, with the former ones. Note is to follow.
func OpenBoots(dir, now string) (*Boots, error) {
	b := &Boots{path: filepath.Join(dir, BootsFile)}
	data, err := os.ReadFile(b.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("former boots: %w", err)
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

// Note writes this boot down, once. Where that fails, as the disk is full, a server does without, and tries again.
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

// ForStore is the boot for the store to remember, empty while it is not written down: a later boot would not know it.
func (b *Boots) ForStore() string {
	if !b.noted.Load() {
		return ""
	}
	return b.Now()
}

// Now is the id of this boot.
func (b *Boots) Now() string { return b.ids[len(b.ids)-1] }

// Ended tells whether an id is that of a former boot of this machine.
func (b *Boots) Ended(id string) bool { return id != b.Now() && slices.Contains(b.ids, id) }

// Known tells whether an id is that of a boot of this machine, former or present.
func (b *Boots) Known(id string) bool { return slices.Contains(b.ids, id) }
