package contivmodel

import "github.com/contiv/netplugin/utils/secret"

// Bgp makes one node a BGP speaker. Neighbor and NeighborAs are its first neighbour,
// Neighbors the others; each session carries routes of IPv4 and of IPv6.
type Bgp struct {
	Key          string      `json:"key"`
	As           string      `json:"as,omitempty" model:"max=64 changeable" doc:"own AS" column:"3 AS"`
	HoldTime     int         `json:"holdTime,omitempty" model:"max=65535 changeable" doc:"seconds of silence after which a neighbour is gone, at least 3; 0: 90"`
	Hostname     string      `json:"hostname,omitempty" model:"key=1 required max=256 rule=NAME" doc:"host label of the node" column:"1 HostName"`
	Ipv6Routerip string      `json:"ipv6Routerip,omitempty" model:"rule=V6NET changeable" doc:"IPv6 address of the router interface, with length"`
	Neighbor     string      `json:"neighbor,omitempty" model:"max=15 rule=IPOPT changeable" doc:"address of the neighbour" column:"4 Neighbor"`
	NeighborAs   string      `json:"neighbor-as,omitempty" model:"max=64 changeable" doc:"AS of the neighbour" column:"5 NeighborAS"`
	Neighbors    []string    `json:"neighbors,omitempty" model:"changeable" doc:"further neighbours of IPv4 or IPv6, each address=AS"`
	Password     secret.Text `json:"password,omitempty" model:"max=80 changeable" doc:"of sessions with all neighbours, by TCP MD5 (RFC 2385); never told; absent from an update: unchanged"`
	Routerip     string      `json:"routerip,omitempty" model:"required rule=RTRIP changeable" doc:"address of the router interface, with length" column:"2 RouterIP"`
}

// BgpOper is the run-time view of a BGP speaker.
type BgpOper struct {
	AdminStatus    string            `json:"adminStatus,omitempty"`    // of the first neighbour
	Announced      []string          `json:"announced,omitempty"`      // prefixes announced to the neighbours
	NeighborStatus string            `json:"neighborStatus,omitempty"` // of the first neighbour
	Neighbors      []BgpNeighborOper `json:"neighbors,omitempty"`
	NumRoutes      int               `json:"numRoutes,omitempty"`
	Problem        string            `json:"problem,omitempty"` // why the node is not the configured router
	Routes         []string          `json:"routes,omitempty"`  // prefixes learned
}

// BgpNeighborOper is the state of the session with one neighbour.
type BgpNeighborOper struct {
	Address     string `json:"address"`
	As          string `json:"as"`
	AdminStatus string `json:"adminStatus,omitempty"` // up, down, or pfx_ct: closed for a while, too many prefixes
	Status      string `json:"status,omitempty"`      // idle, connect, active, opensent, openconfirm or established
	LastError   string `json:"lastError,omitempty"`   // why there is no session
	Flapping    string `json:"flapping,omitempty"`    // how often the session has ended recently, and why; empty: not often
	NumRoutes   int    `json:"numRoutes"`
}

// BgpInspect is the response of inspect for a BGP speaker.
type BgpInspect = Inspect[Bgp, BgpOper]

func (b *Bgp) ModelType() string { return "Bgp" }
func (b *Bgp) ModelKey() string  { return b.Hostname }
func (b *Bgp) SetKey(key string) { b.Key = key }
