package vswitchd

// Types of datapaths.
const (
	System = "system" // in the kernel
	Netdev = "netdev" // in ovs-vswitchd
)

// DatapathNamed returns ovs-vswitchd's name of its datapath of a type.
func DatapathNamed(kind string) string { return kind + "@ovs-" + kind }
