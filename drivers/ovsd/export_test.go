package ovsd

import (
	"time"

	"github.com/contiv/netplugin/drivers/ovsd/programmer"
)

// SetChunk makes bundles small, so that a few flows are written like many. It
// is called before Run.
func (d *Driver) SetChunk(flows int) {
	smaller := d.programmed()
	smaller.Chunk = flows
	d.programmer = programmer.New(smaller)
}

// SetManyMasks says from how many masks on the log tells whose they are. It is called before Run.
func (d *Driver) SetManyMasks(masks int) { d.manyMasks = masks }

// SetSlowTime says for how long a port is slowed down at first. It is called before Run.
func (d *Driver) SetSlowTime(t time.Duration) { d.slowing.time = t }
