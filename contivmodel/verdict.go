package contivmodel

// Verdicts report whether an endpoint may open a connection to another, over each IP family that both have, and
// what decides. They are computed from the state from which agents make flows; the flows themselves are not
// inspected.
type Verdicts struct {
	From     string    `json:"from"` // as in the request
	To       string    `json:"to"`
	Protocol string    `json:"protocol"` // tcp, udp or sctp
	Port     int       `json:"port"`
	Verdicts []Verdict `json:"verdicts"`
}

// Verdict is about a connection between two addresses. It is allowed if all judgements allow it.
type Verdict struct {
	From    string      `json:"from"`
	To      string      `json:"to"`
	Allowed bool        `json:"allowed"`
	Judged  []Judgement `json:"judged"` // in order of evaluation, up to the first that denies
}

// Judgement is one of the decisions about a connection.
type Judgement struct {
	Of      string `json:"of"` // packets, of rules between groups; egress, ingress
	Allowed bool   `json:"allowed"`
	Tier    string `json:"tier"`           // that has decided; "none": no tier has a rule for it; "pod not known": it was deleted, or is new
	Rule    string `json:"rule,omitempty"` // or policy; none: because no rule allows it
}
