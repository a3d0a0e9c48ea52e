package mastercfg

import "github.com/contiv/netplugin/utils/secret"

// CfgBgpState makes one node a BGP speaker. What it means is that of Speaker.
type CfgBgpState struct {
	ID         string      `json:"id"` // host
	Hostname   string      `json:"hostname"`
	RouterIP   string      `json:"router-ip"`
	RouterIPv6 string      `json:"router-ipv6,omitempty"`
	As         string      `json:"as"`
	NeighborAs string      `json:"neighbor-as"`
	Neighbor   string      `json:"neighbor"`
	Neighbors  []string    `json:"neighbors,omitempty"` // further ones, each address=AS
	Password   secret.Text `json:"password,omitempty"`
	HoldTime   int         `json:"hold-time,omitempty"` // seconds
}

// NodeBgp is what an agent answers at /inspect/bgp; null when it is to be no speaker.
type NodeBgp struct {
	Peers []NodeBgpPeer `json:"peers"`
	Dsts  []string      `json:"dsts"` // prefixes learned

	Announced []string `json:"announced,omitempty"` // prefixes, ascending

	Problem string `json:"problem,omitempty"` // why the node is not the router that is wanted
}

// NodeBgpPeer is how it stands with a neighbour.
type NodeBgpPeer struct {
	Config struct {
		NeighborAddress string `json:"neighbor-address"`
		PeerAs          uint32 `json:"peer-as"`
		LocalAs         uint32 `json:"local-as"`
	} `json:"config"`
	State struct {
		AdminState   string `json:"admin-state"`   // up, down, pfx_ct: closed, as it announces too much
		SessionState string `json:"session-state"` // idle, connect, active, opensent, openconfirm, established
		LastError    string `json:"last-error,omitempty"`
		Flapping     string `json:"flapping,omitempty"` // how often the session has ended lately, and why; empty: not often
		Routes       int    `json:"routes"`             // learned from it and in use
	} `json:"state"`
}
