package drivers

import "github.com/contiv/netplugin/ofnet/pipeline"

// LinkGroup is a mark that the kernel keeps with a link of a bridge's endpoint, and that is set in the
// same request that makes it: this is how a driver knows its links again, and
// leaves those of the other bridge to the other driver. The alias, which cannot
// be, says whose the link is.
func LinkGroup(e pipeline.Encap) uint32 { return 0xc0 + uint32(e) }
