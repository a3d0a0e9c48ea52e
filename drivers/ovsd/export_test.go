package ovsd

// SetChunk makes bundles small, so that a few flows are written like many. It
// is called before Run.
func (d *Driver) SetChunk(flows int) { d.chunk = flows }
