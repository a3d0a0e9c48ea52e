package attachment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	ids []string // the last one is that of now
}

// OpenBoots notes that the machine is in a boot now, and returns it with the former ones.
func OpenBoots(dir, now string) (Boots, error) {
	path := filepath.Join(dir, BootsFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Boots{}, fmt.Errorf("former boots: %w", err)
	}
	ids := strings.Fields(string(data))
	if len(ids) > 0 && ids[len(ids)-1] == now {
		return Boots{ids}, nil
	}
	ids = append(ids, now)
	ids = ids[max(0, len(ids)-mostBoots):]
	if err := durable.Write(path, []byte(strings.Join(ids, "\n")+"\n")); err != nil {
		return Boots{}, fmt.Errorf("this boot: %w", err)
	}
	return Boots{ids}, nil
}

// Now is the id of this boot.
func (b Boots) Now() string { return b.ids[len(b.ids)-1] }

// Ended tells whether an id is that of a former boot of this machine.
func (b Boots) Ended(id string) bool { return id != b.Now() && slices.Contains(b.ids, id) }

// Known tells whether an id is that of a boot of this machine, former or present.
func (b Boots) Known(id string) bool { return slices.Contains(b.ids, id) }
