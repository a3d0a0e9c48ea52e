package contivmodel

// Counters are counts of the switches since they were started, summed over the nodes that answered.

// RuleCounters is the traffic that matched a rule.
type RuleCounters struct {
	Bytes   uint64 `json:"bytes"`
	Packets uint64 `json:"packets"`
}

// PolicyCounters are the counters of a policy's rules.
type PolicyCounters struct {
	Rules  map[string]RuleCounters `json:"rules"`            // by key; without rules that no node counts
	Silent []string                `json:"silent,omitempty"` // nodes that did not answer, each with the cause
}

// EndpointCounters is the traffic of an endpoint: sent by it (tx) and to it (rx).
type EndpointCounters struct {
	RxBytes   uint64 `json:"rxBytes"`
	RxPackets uint64 `json:"rxPackets"`
	TxBytes   uint64 `json:"txBytes"`
	TxPackets uint64 `json:"txPackets"`
}
