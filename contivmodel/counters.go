package contivmodel

// Counters are what the switches have counted since they were started, summed
// over the nodes that answered.

// RuleCounters is the traffic that a rule has decided about.
type RuleCounters struct {
	Bytes   uint64 `json:"bytes"`
	Packets uint64 `json:"packets"`
}

// PolicyCounters are those of the rules of a policy.
type PolicyCounters struct {
	Rules  map[string]RuleCounters `json:"rules"`            // by key; what no node counts is left out
	Silent []string                `json:"silent,omitempty"` // nodes that did not answer, each with the cause
}

// EndpointCounters is the traffic of an endpoint: sent by it (tx) and to it (rx).
type EndpointCounters struct {
	RxBytes   uint64 `json:"rxBytes"`
	RxPackets uint64 `json:"rxPackets"`
	TxBytes   uint64 `json:"txBytes"`
	TxPackets uint64 `json:"txPackets"`
}
