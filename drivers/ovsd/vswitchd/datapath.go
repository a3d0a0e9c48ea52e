package vswitchd

// Types of datapaths.
const (
	System = "system" // in the kernel
	Netdev = "netdev" // in ovs-vswitchd
)

// DatapathNamed is the name of the datapath that ovs-vswitchd has of a type.
func DatapathNamed(kind string) string { return kind + "@ovs-" + kind }
