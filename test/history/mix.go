package history

// share is the frequency of an operation, relative to the others.
type share struct {
	weight int
	make   func(*generator) Operation
}

// mix has the shares of the operations. Names are from small sets, so that clients collide: most creations find
// the object, most references are valid, most pools are nearly full.
var mix = []share{
	{20, (*generator).createTenant},
	{12, (*generator).deleteTenant},
	{60, (*generator).createNetwork},
	{35, (*generator).deleteNetwork},
	{70, (*generator).postGroup},
	{35, (*generator).deleteGroup},
	{30, (*generator).postPolicy},
	{14, (*generator).deletePolicy},
	{70, (*generator).createRule},
	{40, (*generator).deleteRule},
	{24, (*generator).postNetprofile},
	{12, (*generator).deleteNetprofile},
	{12, (*generator).createContracts},
	{8, (*generator).deleteContracts},
	{14, (*generator).postAppProfile},
	{12, (*generator).deleteAppProfile},
	{24, (*generator).postService},
	{14, (*generator).deleteService},
	{8, (*generator).postBgp},
	{6, (*generator).deleteBgp},
	{12, (*generator).updateGlobal},
	{4, (*generator).postFabric},
	{3, (*generator).deleteFabric},
	{90, (*generator).apply},
	{1, (*generator).largeApply},
	{190, (*generator).createEndpoint},
	{150, (*generator).deleteEndpoint},
	{20, (*generator).startContainer},
	{8, (*generator).stopContainer},
	{30, (*generator).allocAddress},
	{40, (*generator).releaseAddress},
	{60, (*generator).get},
}

// Sizes of the sets of names.
const (
	tenants   = 4 // the last one is rarely used, so that it can be deleted
	groups    = 6
	policies  = 3
	rules     = 5 // of a policy
	profiles  = 2
	contracts = 2
	services  = 2
	hosts     = 3

	largeObjects = 2000 // of an apply
	// Every run has some large applies: the operation with this number of the first clients is one.
	largeAt      = 40
	largeClients = 4
)

// Scale is the size and the number of the networks of a run.
type Scale struct {
	networks   int // of a tenant; those above busy are rarely used
	busy       int
	containers int // of a network
	shapes     []shape
	furnished  bool // clients begin with a tenant with all its networks
	// Values between which the global object is changed.
	vlanRanges, vxlanRanges []string
}

// Small has small networks, and ranges of tags that are soon used up.
var Small = Scale{networks: 6, busy: 4, containers: 8, shapes: shapes,
	vlanRanges:  []string{"10-17", "10-19", "12-17", "14-30"},
	vxlanRanges: []string{"100-107", "100-110", "103-107", "90-105"}}

// Wide has 64 networks of /16 for each tenant.
var Wide = Scale{networks: 64, busy: 64, containers: 40, furnished: true,
	shapes: []shape{
		{subnet: "10.%[1]d.0.0/16", gateway: "10.%[1]d.255.254"},
		{subnet: "10.%[1]d.0.0/16", gateway: "10.%[1]d.0.1"},
	},
	vlanRanges: []string{"10-4000"}, vxlanRanges: []string{"100-2000", "90-3000"}}

// shape is the form of a network; %[1]d is replaced by a number that decides which networks overlap.
type shape struct {
	subnet, gateway         string
	ipv6Subnet, ipv6Gateway string
	wrong                   string
}

var shapes = []shape{
	{subnet: "10.%[1]d.0.0/29", gateway: "10.%[1]d.0.1"},
	{subnet: "10.%[1]d.0.0/29"},
	{subnet: "10.%[1]d.0.10-10.%[1]d.0.12/24"},
	{subnet: "10.%[1]d.0.4-10.%[1]d.0.9/24", gateway: "10.%[1]d.0.254"},
	{subnet: "10.%[1]d.0.130/28", gateway: "10.%[1]d.0.142"},
	{subnet: "10.%[1]d.0.0/16", gateway: "10.%[1]d.255.254"},
	{subnet: "10.%[1]d.0.0/28", ipv6Subnet: "2001:db8:%[1]d::/64", ipv6Gateway: "2001:db8:%[1]d::1"},
	{subnet: "10.%[1]d.0.16/28", ipv6Subnet: "2001:db8:%[1]d::/126", ipv6Gateway: "2001:db8:%[1]d::2"},
	{subnet: "10.%[1]d.0.0/29", gateway: "10.%[1]d.9.1", wrong: "gateway outside"},
	{subnet: "10.%[1]d.0.9-10.%[1]d.0.4/24", wrong: "range backwards"},
	{subnet: "10.%[1]d.0.0/4", wrong: "prefix length"},
}

// pools are ranges for groups to reserve.
var pools = []string{
	"10.%[1]d.0.3-10.%[1]d.0.5", "10.%[1]d.0.4-10.%[1]d.0.6", "10.%[1]d.0.5", "10.%[1]d.0.11-10.%[1]d.0.12", "10.%[1]d.0.132-10.%[1]d.0.134",
}

// ruleShape is a rule without its names, which are filled in.
type ruleShape struct {
	direction, protocol string
	port, priority      int
	peer                string // "", group, network, address, group+address, own
	wrong               string
}

var ruleShapes = []ruleShape{
	{direction: "in", protocol: "tcp", port: 80, priority: 10, peer: "group"},
	{direction: "in", protocol: "tcp", peer: "group"},
	{direction: "in", protocol: "udp", port: 53, peer: "network"},
	{direction: "in", protocol: "icmp", peer: "address"},
	{direction: "in", peer: "group+address", priority: 100},
	{direction: "in", protocol: "17", port: 123, peer: ""},
	{direction: "in", protocol: "tcp", port: 22, peer: "own"},
	{direction: "out", protocol: "tcp", port: 443, peer: "group"},
	{direction: "out", protocol: "6", peer: "network"},
	{direction: "out", protocol: "udp", port: 5000, peer: "address"},
	{direction: "out", protocol: "132", peer: "group+address"},
	{direction: "in", protocol: "132", port: 3868, peer: "group"},
	{direction: "out", peer: ""},
	{direction: "out", peer: "from", wrong: "from in an outgoing rule"},
	{direction: "in", peer: "two", wrong: "network and group"},
	{direction: "in", port: 80, peer: "group", wrong: "a port without a protocol"},
}
