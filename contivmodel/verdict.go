package contivmodel

// Verdicts say whether an endpoint may begin a connection to another, over each version of IP
// that both have, and what decides. They are of the state that the agents' flows are made of; the flows
// themselves are not looked at.
type Verdicts struct {
	From     string    `json:"from"` // as asked for
	To       string    `json:"to"`
	Protocol string    `json:"protocol"` // tcp, udp or sctp
	Port     int       `json:"port"`
	Verdicts []Verdict `json:"verdicts"`
}

// Verdict is that about a connection between two addresses. It is allowed if all that judge it allow it.
type Verdict struct {
	From    string      `json:"from"`
	To      string      `json:"to"`
	Allowed bool        `json:"allowed"`
	Judged  []Judgement `json:"judged"` // in the order in which they are asked, up to the first that denies
}

// Judgement is what one of those that judge says.
type Judgement struct {
	Of      string `json:"of"` // packets, of rules between groups; egress, ingress
	Allowed bool   `json:"allowed"`
	Tier    string `json:"tier"`           // who has decided; "none": nothing is said about it
	Rule    string `json:"rule,omitempty"` // or policy; none: that no rule allows it
}
