package ovsd

import (
	"time"

	"github.com/contiv/netplugin/drivers/ovsd/programmer"
)

// SetChunk makes bundles small, so that a few flows are written like many. It must be called before Run.
func (d *Driver) SetChunk(flows int) {
	smaller := d.programmed()
	smaller.Chunk = flows
	d.programmer = programmer.New(smaller)
}

// SetManyMasks sets the number of masks from which on the log names their ports. It must be called before Run.
func (d *Driver) SetManyMasks(masks int) { d.manyMasks = masks }

// SetSlowTime sets for how long a port is slowed down at first. It must be called before Run.
func (d *Driver) SetSlowTime(t time.Duration) { d.slowing.time = t }
