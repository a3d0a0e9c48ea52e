package mastercfg

// CfgBgpState makes one node a BGP speaker.
type CfgBgpState struct {
	ID         string `json:"id"` // host
	Hostname   string `json:"hostname"`
	RouterIP   string `json:"router-ip"`
	As         string `json:"as"`
	NeighborAs string `json:"neighbor-as"`
	Neighbor   string `json:"neighbor"`
}

// NodeBgp is what an agent answers at /inspect/bgp; null when it is no speaker.
type NodeBgp struct {
	Peers []NodeBgpPeer `json:"peers"`
	Dsts  []string      `json:"dsts"` // prefixes learned
}

// NodeBgpPeer is the part of a neighbour's description that netmaster shows.
type NodeBgpPeer struct {
	State struct {
		AdminState   string `json:"admin-state"`
		SessionState string `json:"session-state"`
	} `json:"state"`
}
