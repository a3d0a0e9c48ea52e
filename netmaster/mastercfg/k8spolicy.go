package mastercfg

import "strconv"

// K8sClass is which tiers apply to the pods of a class, which are those that no policy distinguishes. Its key
// is the number of the class; pods have it in their K8sPod. Pods of a class that has no record are isolated.
type K8sClass struct {
	JudgesOut   bool `json:"judgesOut,omitempty"`   // connections that they begin
	IsolatesOut bool `json:"isolatesOut,omitempty"` // they may begin only connections that a rule allows
	JudgesIn    bool `json:"judgesIn,omitempty"`    // connections that they accept
	IsolatesIn  bool `json:"isolatesIn,omitempty"`
}

// K8sClassKey returns the key of a class.
func K8sClassKey(number uint16) string { return K8sClassPrefix + strconv.Itoa(int(number)) }

// K8sPolicy are the rules derived from a policy of Kubernetes.
type K8sPolicy struct {
	Spec  string     `json:"spec"`            // differs whenever the contents of the policy differ
	Epoch uint32     `json:"epoch,omitempty"` // since which these are its contents
	Rules []TierRule `json:"rules"`
}

// TierRule applies to connections of its subjects with its peers.
type TierRule struct {
	Tier     int      `json:"tier"`           // 0 first, 1 that of policies, 2 last
	Out      bool     `json:"out,omitempty"`  // connections that subjects begin; else those that they accept
	Rank     int      `json:"rank,omitempty"` // in tiers 0 and 2: lower comes first
	Verdict  string   `json:"verdict"`        // accept, deny, pass
	Subjects []uint16 `json:"subjects"`       // classes, ascending
	AnyPeer  bool     `json:"anyPeer,omitempty"`
	AnyPod   bool     `json:"anyPod,omitempty"` // all pods, of any class, are peers, in place of AnyPeer and Peers
	Peers    []uint16 `json:"peers,omitempty"`  // classes, ascending
	Nets     []string `json:"nets,omitempty"`   // CIDRs
	// Excepts is what was taken out of Nets, and then also the networks that nothing was taken out of. Nodes whose
	// InternalIPs are among Nets are peers at the addresses of their processes, too, but not at those that each
	// network with the InternalIP leaves out.
	Excepts []TierExcept `json:"excepts,omitempty"`
	Names   []string     `json:"names,omitempty"`   // domains, or *.DOMAIN for all below: the addresses that agents learn for them are peers, too
	Serving []uint16     `json:"serving,omitempty"` // classes, ascending: the rule is for receivers of these only. None: for all receivers
	Ports   []TierPorts  `json:"ports,omitempty"`   // none: any, of any protocol
}

// Anyone reports whether every address is a peer, not only pods. A rule about any pod that denies has AnyPeer,
// too: an agent of an earlier version, which does not know AnyPod, then denies more. One that accepts has no
// Peers, and such an agent accepts less.
func (r TierRule) Anyone() bool { return r.AnyPeer && !r.AnyPod }

// TierExcept is what was excluded from a network.
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

// K8sEpoch changes when a policy does, or when existing pods change their class: connections that
// were admitted before are evaluated again.
type K8sEpoch struct {
	Number uint32 `json:"number"`
}

// K8sEnforced is an agent's report about policies in its switch, and about its other failures. These are in
// this record as older netmasters let nodes write no other.
type K8sEnforced struct {
	Number   uint32            `json:"number"`            // the epoch that the switch has completely, except what is refused
	Refused  map[string]string `json:"refused,omitempty"` // errors, by policy as in keys of K8sPolicy: the first ones in the order of their names
	More     bool              `json:"more,omitempty"`    // there are further errors
	Troubles []K8sTrouble      `json:"ports,omitempty"`   // the first ones in order; formerly they were all about ports
}

// Enforces reports whether the switch enforces the contents that a policy has since an epoch.
func (e K8sEnforced) Enforces(policy string, epoch uint32) bool {
	_, refused := e.Refused[policy]
	return e.Number != 0 && e.Number >= epoch && !refused && !e.More
}

// K8sEnforcedKey returns the key under which an agent reports what its switch enforces.
func K8sEnforcedKey(node string) string { return K8sEnforcedPrefix + node }

// K8sEnforcedPrefix is the prefix for all nodes.
const K8sEnforcedPrefix = OperRoot + "k8s-epoch/"

// K8sRefused is the list of nodes that have refused rules of a policy, and not reported since that they enforce it.
type K8sRefused struct {
	Nodes []string `json:"nodes"` // ascending
}
