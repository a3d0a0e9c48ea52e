package contivmodel

// Bgp makes one node a BGP speaker with one neighbour.
type Bgp struct {
	Key        string `json:"key"`
	As         string `json:"as,omitempty" model:"max=64 changeable" doc:"own AS" column:"3 AS"`
	Hostname   string `json:"hostname,omitempty" model:"key=1 required max=256 rule=NAME" doc:"host label of the node" column:"1 HostName"`
	Neighbor   string `json:"neighbor,omitempty" model:"max=15 rule=IPOPT changeable" doc:"address of the neighbour" column:"4 Neighbor"`
	NeighborAs string `json:"neighbor-as,omitempty" model:"max=64 changeable" doc:"AS of the neighbour" column:"5 NeighborAS"`
	Routerip   string `json:"routerip,omitempty" model:"required rule=RTRIP changeable" doc:"address of the router interface, with length" column:"2 RouterIP"`
}

// BgpOper is the run-time view of a BGP speaker.
type BgpOper struct {
	AdminStatus    string   `json:"adminStatus,omitempty"`
	NeighborStatus string   `json:"neighborStatus,omitempty"`
	NumRoutes      int      `json:"numRoutes,omitempty"`
	Routes         []string `json:"routes,omitempty"`
}

// BgpInspect answers inspection of a BGP speaker.
type BgpInspect = Inspect[Bgp, BgpOper]

func (b *Bgp) ModelType() string { return "Bgp" }
func (b *Bgp) ModelKey() string  { return b.Hostname }
func (b *Bgp) SetKey(key string) { b.Key = key }
