package drivers

import "github.com/contiv/netplugin/ofnet/pipeline"

// LinkGroup returns the kernel's link group of an endpoint's link on a bridge. It is set in the same request that
// creates the link, which the alias, the endpoint's id, cannot be. By it a driver recognizes its own links and
// leaves those of the other bridge to the other driver.
func LinkGroup(e pipeline.Encap) uint32 { return 0xc0 + uint32(e) }
