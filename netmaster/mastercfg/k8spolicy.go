package mastercfg

import "strconv"

// K8sClass is what tiers judge of the pods of a class, which are those that no policy tells
// apart. Its key is the number of the class; pods have it in their K8sPod. Whoever is of a
// class that has no record is isolated.
type K8sClass struct {
	JudgesOut   bool `json:"judgesOut,omitempty"`   // what they begin
	IsolatesOut bool `json:"isolatesOut,omitempty"` // policies let them begin only what a rule allows
	JudgesIn    bool `json:"judgesIn,omitempty"`    // what they accept
	IsolatesIn  bool `json:"isolatesIn,omitempty"`
}

// K8sClassKey is where a class is noted.
func K8sClassKey(number uint16) string { return K8sClassPrefix + strconv.Itoa(int(number)) }

// K8sPolicy are the rules that a policy of Kubernetes has become.
type K8sPolicy struct {
	Spec  string     `json:"spec"`            // tells what the policy says from what it said before
	Epoch uint32     `json:"epoch,omitempty"` // in which it says that
	Rules []TierRule `json:"rules"`
}

// TierRule is about connections of its subjects with its peers.
type TierRule struct {
	Tier     int          `json:"tier"`           // 0 first, 1 that of policies, 2 last
	Out      bool         `json:"out,omitempty"`  // that subjects begin; else that they accept
	Rank     int          `json:"rank,omitempty"` // in tiers 0 and 2: lower comes first
	Verdict  string       `json:"verdict"`        // accept, deny, pass
	Subjects []uint16     `json:"subjects"`       // classes, ascending
	AnyPeer  bool         `json:"anyPeer,omitempty"`
	AnyPod   bool         `json:"anyPod,omitempty"`  // peers are all pods, of whatever class, in place of AnyPeer and Peers
	Peers    []uint16     `json:"peers,omitempty"`   // classes, ascending
	Nets     []string     `json:"nets,omitempty"`    // CIDRs
	Excepts  []TierExcept `json:"excepts,omitempty"` // what was taken out of Nets, and then also the networks that nothing was taken out of. Nodes whose InternalIPs are among Nets are peers at the addresses of their processes, too, but not at those that each network with the InternalIP leaves out
	Names    []string     `json:"names,omitempty"`   // of domains, or *.DOMAIN for all below: what agents hear that they stand for are peers, too
	Serving  []uint16     `json:"serving,omitempty"` // classes, ascending: the rule is for receivers of these only. None: for all receivers
	Ports    []TierPorts  `json:"ports,omitempty"`   // none: any, of any protocol
}

// Anyone tells whether whoever it is counts as peer, also who is no pod. A rule about any pod that denies has AnyPeer, too:
// an agent of an earlier version, which does not know AnyPod, denies more then. One that accepts has no Peers, and accepts less there.
func (r TierRule) Anyone() bool { return r.AnyPeer && !r.AnyPod }

// TierExcept is what was taken out of a network.
type TierExcept struct {
	Net    string   `json:"net"`    // CIDR
	Except []string `json:"except"` // CIDRs
}

// TierPorts is a range of ports at the receiver of a connection.
type TierPorts struct {
	Protocol uint8  `json:"protocol"`
	First    uint16 `json:"first"`
	Last     uint16 `json:"last"`
}

// K8sEpoch changes when a policy does, or pods that were there become of another class:
// connections that were admitted before are judged anew.
type K8sEpoch struct {
	Number uint32 `json:"number"`
}

// K8sEnforced is what the agent of a node says about policies and its switch, and about what else it does not do as it should.
// That is said here, as netmasters of before let nodes write this record and no other.
type K8sEnforced struct {
	Number   uint32            `json:"number"`            // the epoch of which the switch has everything, but for what is refused
	Refused  map[string]string `json:"refused,omitempty"` // why it has not, by policy as in keys of K8sPolicy: the first ones in the order of their names
	More     bool              `json:"more,omitempty"`    // there are others
	Troubles []K8sTrouble      `json:"ports,omitempty"`   // the first ones in their order; they were all about ports once
}

// Enforces tells whether the switch does what a policy says since an epoch.
func (e K8sEnforced) Enforces(policy string, epoch uint32) bool {
	_, refused := e.Refused[policy]
	return e.Number != 0 && e.Number >= epoch && !refused && !e.More
}

// K8sEnforcedKey is where the agent of a node notes what its switch enforces.
func K8sEnforcedKey(node string) string { return K8sEnforcedPrefix + node }

// K8sEnforcedPrefix is that of all nodes.
const K8sEnforcedPrefix = OperRoot + "k8s-epoch/"

// K8sRefused is which nodes have refused rules of a policy, and not said since that they do what it says.
type K8sRefused struct {
	Nodes []string `json:"nodes"` // ascending
}
