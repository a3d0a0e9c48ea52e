package ovsd

import "github.com/contiv/netplugin/drivers/ovsd/programmer"

// SetChunk makes bundles small, so that a few flows are written like many. It
// is called before Run.
func (d *Driver) SetChunk(flows int) {
	smaller := d.programmed()
	smaller.Chunk = flows
	d.programmer = programmer.New(smaller)
}

// SetManyMasks says from how many masks on the log tells whose they are. It is called before Run.
func (d *Driver) SetManyMasks(masks int) { d.manyMasks = masks }
