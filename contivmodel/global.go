package contivmodel

// GlobalName is the name and key of the one global object.
const GlobalName = "global"

// Global is the cluster-wide configuration; there is exactly one.
type Global struct {
	Key              string `json:"key"`
	ArpMode          string `json:"arpMode,omitempty" model:"max=64 oneof=proxy|flood changeable" doc:"how ARP requests are handled" column:"3 ARP mode"`
	FwdMode          string `json:"fwdMode,omitempty" model:"max=64 oneof=bridge|routing changeable" doc:"forwarding mode" column:"2 Forward mode"`
	Name             string `json:"name,omitempty" model:"key=1 required max=64 oneof=global" doc:"fixed name"`
	NetworkInfraType string `json:"networkInfraType,omitempty" model:"max=64 oneof=aci|aci-opflex|default changeable" doc:"type of the fabric" column:"1 Fabric mode"`
	PvtSubnet        string `json:"pvtSubnet,omitempty" model:"required rule=PVT16 changeable" doc:"private subnet between host and containers" column:"6 Private subnet"`
	Vlans            string `json:"vlans,omitempty" model:"required rule=VLANS changeable" doc:"VLAN pool, min-max" column:"4 Vlan Range"`
	Vxlans           string `json:"vxlans,omitempty" model:"required rule=VXLANS changeable" doc:"VXLAN pool, min-max" column:"5 Vxlan range"`
}

// GlobalOper is the run-time view of the cluster.
type GlobalOper struct {
	ClusterMode     string `json:"clusterMode,omitempty"`
	DefaultNetwork  string `json:"defaultNetwork,omitempty"`
	FreeVXLANsStart int    `json:"freeVXLANsStart,omitempty"` // range minimum - 1
	NumNetworks     int    `json:"numNetworks,omitempty"`
	VlansInUse      string `json:"vlansInUse,omitempty"` // such as "1-3, 10"
	VxlansInUse     string `json:"vxlansInUse,omitempty"`
}

// GlobalInspect is the response of inspect for the global object.
type GlobalInspect = Inspect[Global, GlobalOper]

func (g *Global) ModelType() string { return "global" }
func (g *Global) ModelKey() string  { return g.Name }
func (g *Global) SetKey(key string) { g.Key = key }
