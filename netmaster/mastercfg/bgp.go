package mastercfg

import "github.com/contiv/netplugin/utils/secret"

// CfgBgpState makes one node a BGP speaker; its method Speaker parses it.
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

// NodeBgp is an agent's answer at /inspect/bgp; null if the node is not to be a speaker.
type NodeBgp struct {
	Peers []NodeBgpPeer `json:"peers"`
	Dsts  []string      `json:"dsts"` // prefixes learned

	Announced []string `json:"announced,omitempty"` // prefixes, ascending

	Problem string `json:"problem,omitempty"` // why the node is not the router that is configured
}

// NodeBgpPeer is the state of a neighbour.
type NodeBgpPeer struct {
	Config struct {
		NeighborAddress string `json:"neighbor-address"`
		PeerAs          uint32 `json:"peer-as"`
		LocalAs         uint32 `json:"local-as"`
	} `json:"config"`
	State struct {
		AdminState   string `json:"admin-state"`   // up, down, pfx_ct: closed, as it announces too many prefixes
		SessionState string `json:"session-state"` // idle, connect, active, opensent, openconfirm, established
		LastError    string `json:"last-error,omitempty"`
		Flapping     string `json:"flapping,omitempty"` // how often the session has ended recently, and why; empty: not often
		Routes       int    `json:"routes"`             // learned from it and in use
	} `json:"state"`
}
