package hostaccess

import (
	"net"
	"net/netip"

	"github.com/contiv/netplugin/drivers"
)

// Interface is an interface of the host at a port of the switch. It belongs to us
// whole: other addresses of it are removed.
type Interface struct {
	Name      string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Userspace bool // the switch would forward checksums that nobody has filled in
}

// Ensure makes the interface of the host's end of a port, or sets it right, and says
// whether something had to be changed.
func (i Interface) Ensure(port drivers.Port) (changed bool, err error) {
	return wantedLink{name: i.Name, mac: i.MAC, addresses: i.Addresses, checksumInSoftware: i.Userspace}.ensure(port, new(own))
}
