package ovsd

// SetChunk makes bundles small, so that a few flows are written like many. It
// is called before Run.
func (d *Driver) SetChunk(flows int) { d.chunk = flows }

// SetManyMasks says from how many masks on the log tells whose they are. It is called before Run.
func (d *Driver) SetManyMasks(masks int) { d.manyMasks = masks }
