package mastercfg

// CfgNetworkState is the derived record of a network. It does not change with the endpoints: the counters are always
// 0 and the maps contain no assigned addresses (IPv6AllocMap has the gateway), unless an older netmaster wrote it.
type CfgNetworkState struct {
	ID            string          `json:"id"` // N.T
	Tenant        string          `json:"tenant"`
	NetworkName   string          `json:"networkName"`
	NwType        string          `json:"nwType"`     // data or infra
	PktTagType    string          `json:"pktTagType"` // vlan or vxlan
	PktTag        int             `json:"pktTag"`     // number of the network in every switch, 1..16383; for vlan its VLAN
	ExtPktTag     int             `json:"extPktTag"`  // VNI; 0 for vlan
	SubnetIP      string          `json:"subnetIP"`
	SubnetLen     uint            `json:"subnetLen"`
	Gateway       string          `json:"gateway"`
	IPAddrRange   string          `json:"ipAddrRange"`
	EpAddrCount   int             `json:"epAddrCount"`
	EpCount       int             `json:"epCount"`
	IPAllocMap    Bitmap          `json:"ipAllocMap"` // no bits
	IPv6Subnet    string          `json:"ipv6SubnetIP"`
	IPv6SubnetLen uint            `json:"ipv6SubnetLen"`
	IPv6Gateway   string          `json:"ipv6Gateway"`
	IPv6AllocMap  map[string]bool `json:"ipv6AllocMap"` // host ids such as "::5"
	IPv6LastHost  string          `json:"ipv6LastHost"` // empty
	NetworkTag    string          `json:"networkTag"`
}

// CfgEndpointState is the derived record of an endpoint, and the answer of createEndpoint.
type CfgEndpointState struct {
	ID               string            `json:"id"` // N.T-C
	NetID            string            `json:"netID"`
	EndpointID       string            `json:"endpointID"`
	ServiceName      string            `json:"serviceName"` // group name
	EndpointGroupID  int               `json:"endpointGroupId"`
	EndpointGroupKey string            `json:"endpointGroupKey"` // G:T
	IPAddress        string            `json:"ipAddress"`
	IPv6Address      string            `json:"ipv6Address"`
	MacAddress       string            `json:"macAddress"`
	HomingHost       string            `json:"homingHost"`
	IntfName         string            `json:"intfName"`
	VtepIP           string            `json:"vtepIP"`
	Labels           map[string]string `json:"labels"`
	ContainerID      string            `json:"containerId"`
	EPCommonName     string            `json:"epCommonName"`

	// Of a pod of Kubernetes, whose name is EPCommonName.
	PodNamespace string `json:"podNamespace,omitempty"`
	PodUID       string `json:"podUID,omitempty"`

	// Boot is the kernel's id of the host's boot in which the endpoint's container was attached; empty: unknown.
	Boot string `json:"boot,omitempty"`
}

// EndpointGroupState is the derived record of an endpoint group. It does not change with the endpoints either.
type EndpointGroupState struct {
	ID              string `json:"id"` // G:T
	GroupName       string `json:"groupName"`
	TenantName      string `json:"tenantName"`
	NetworkName     string `json:"networkName"`
	EndpointGroupID int    `json:"endpointGroupId"` // 1..32767
	PktTagType      string `json:"pktTagType"`
	PktTag          int    `json:"pktTag"`
	ExtPktTag       int    `json:"extPktTag"`
	EpCount         int    `json:"epCount"`
	DSCP            int    `json:"DSCP"`
	Bandwidth       string `json:"Bandwidth"`
	Burst           int    `json:"Burst"`
	IPPool          string `json:"IPPool"`        // first-last
	EPGIPAllocMap   Bitmap `json:"epgIpAllocMap"` // no bits
	GroupTag        string `json:"groupTag"`
}

// CfgPolicyRule is one directional rule, as the datapath enforces it.
type CfgPolicyRule struct {
	ID               string `json:"id"` // empty in the store; RuleID identifies
	RuleID           string `json:"RuleId"`
	Priority         int    `json:"Priority"` // 1..100, higher wins
	SrcEndpointGroup int    `json:"SrcEndpointGroup"`
	DstEndpointGroup int    `json:"DstEndpointGroup"`
	SrcIPAddr        string `json:"SrcIpAddr"` // address or CIDR; empty: any
	DstIPAddr        string `json:"DstIpAddr"`
	SrcIPv6Addr      string `json:"SrcIpv6Addr,omitempty"` // CIDR, beside an IPv4 one: the rule names a network with both families
	DstIPv6Addr      string `json:"DstIpv6Addr,omitempty"`
	IPProtocol       uint8  `json:"IpProtocol"` // 0: any
	SrcPort          uint16 `json:"SrcPort"`
	DstPort          uint16 `json:"DstPort"`
	TCPFlags         string `json:"TcpFlags"` // "", syn, ack, "syn,ack", "syn,!ack", "!syn,ack"
	Action           string `json:"Action"`   // allow or deny
}

// VRFState gives a tenant its routing domain: one number for the whole cluster,
// so that flow dumps of different nodes can be compared. It lives from the
// creation of the tenant to its deletion.
type VRFState struct {
	ID  string `json:"id"`  // tenant
	VRF uint16 `json:"vrf"` // 1..32765

	// PolicyMode is PolicyFinal or empty.
	PolicyMode string `json:"policyMode,omitempty"`
}

// PolicyFinal is the mode in which a rule of a group that allows a connection is the final verdict, in the
// direction of the rule. In the other mode policies of Kubernetes are applied to what groups allow.
const PolicyFinal = "final"

// GlobConfig is the run-time configuration that every agent follows.
type GlobConfig struct {
	ID          string `json:"id"`
	NwInfraType string `json:"nw-infra-type"`
	FwdMode     string `json:"fwd-mode"`
	ArpMode     string `json:"arp-mode"`
	PvtSubnet   string `json:"pvt-subnet"`
}

// GlobalState records the active tag ranges.
type GlobalState struct {
	ID   string     `json:"id"`
	Auto AutoRanges `json:"auto"`
}

// AutoRanges are the configured tag ranges, "min-max".
type AutoRanges struct {
	VLANs  string `json:"VLANs"`
	VXLANs string `json:"VXLANs"`
}

// GlobalOper is the run-time part of the global record.
type GlobalOper struct {
	ID              string `json:"id"`
	DefaultNetwork  string `json:"defaultNetwork,omitempty"`
	FreeVXLANsStart uint   `json:"freeVXLANsStart"` // range minimum - 1
}

// HeldAddress is an address that was assigned without an endpoint. It is deleted when an endpoint
// takes the address or it is released.
type HeldAddress struct {
	ID    string `json:"id"` // the address
	NetID string `json:"netID"`
}

// IPv4Counter is where the search for the next IPv4 address of a pod starts.
type IPv4Counter struct {
	ID   string `json:"id"`   // N.T, or G:T if it is of a group's own range
	Last string `json:"last"` // address that was assigned last
}

// IPv6Counter is where the search for the next IPv6 address of a network starts.
type IPv6Counter struct {
	ID       string `json:"id"`       // N.T
	LastHost string `json:"lastHost"` // host part that was assigned last, "::5"
}

// VLANConfig is the configured VLAN pool. Which of them are free follows from the records of networks and groups.
type VLANConfig struct {
	ID    string `json:"id"`
	VLANs Bitmap `json:"vlans"` // 4096 bits; bit set: in the pool
}

// VXLANConfig is the configured VNI pool with its local VLANs.
type VXLANConfig struct {
	ID              string `json:"id"`
	VXLANs          Bitmap `json:"vxlans"` // index = VNI - FreeVXLANsStart
	LocalVLANs      Bitmap `json:"LocalVLANs"`
	FreeVXLANsStart uint   `json:"FreeVXLANsStart"`
}

// OperEndpointState is an agent's report of an endpoint that it serves.
type OperEndpointState struct {
	ID          string `json:"id"`
	NetID       string `json:"netID"`
	EndpointID  string `json:"endpointID"`
	ServiceName string `json:"serviceName"`
	ContUUID    string `json:"contUUID"`
	IPAddress   string `json:"ipAddress"`
	IPv6Address string `json:"ipv6Address"`
	MacAddress  string `json:"macAddress"`
	HomingHost  string `json:"homingHost"`
	IntfName    string `json:"intfName"`
	PortName    string `json:"portName"` // vportN
	VtepIP      string `json:"vtepIP"`
}

// OvsDriverOperState is an agent's report of its switch ports.
type OvsDriverOperState struct {
	ID          string                 `json:"id"`
	CurrPortNum int                    `json:"currPortNum"`
	LocalEpInfo map[string]LocalEpInfo `json:"LocalEpInfo"`
}

// LocalEpInfo is the port of one local endpoint.
type LocalEpInfo struct {
	OvsPortName string `json:"Ovsportname"`
	EpgKey      string `json:"EpgKey"`
	BridgeType  string `json:"BridgeType"`
}

// EpgPolicy binds a policy to a group. The expanded rules are not repeated here: they are the keys below
// policyRule/ that begin with the binding's id.
type EpgPolicy struct {
	ID              string `json:"id"`
	EpgPolicyKey    string `json:"EpgPolicyKey"`
	EndpointGroupID int    `json:"EndpointGroupID"`
}

// DnetOperState is which docker network a network or group is. In swarm mode agents write it.
type DnetOperState struct {
	ID          string `json:"id"` // T.N.G
	TenantName  string `json:"tenantName"`
	NetworkName string `json:"networkName"`
	ServiceName string `json:"serviceName"` // group; empty: the network
	DocknetUUID string `json:"docknetUUID"`
}

// NodeGC is the time after which the endpoints of a vanished node are freed.
type NodeGC struct {
	ID        string `json:"id"` // host label
	HostAddr  string `json:"hostAddr"`
	DownSince string `json:"downSince"` // RFC 3339
	Deadline  string `json:"deadline"`  // RFC 3339; by the clock of the leader that wrote it
	Remaining string `json:"remaining"` // what is left, as "23h0m0s"; it counts down while a leader observes
}
