package contivmodel

// Policy is a named set of rules that groups refer to.
type Policy struct {
	Key        string         `json:"key"`
	PolicyName string         `json:"policyName,omitempty" model:"key=2 required max=64 rule=NAME" doc:"name of the policy" column:"2 Policy"`
	TenantName string         `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the policy" column:"1 Tenant"`
	LinkSets   PolicyLinkSets `json:"link-sets"`
	Links      PolicyLinks    `json:"links"`
}

// PolicyLinkSets are the objects linked to a policy.
type PolicyLinkSets struct {
	EndpointGroups LinkSet `json:"EndpointGroups,omitempty"`
	Rules          LinkSet `json:"Rules,omitempty"`
}

// PolicyLinks are the single objects a policy refers to.
type PolicyLinks struct {
	Tenant Link `json:"Tenant"`
}

// PolicyOper is the run-time view of a policy.
type PolicyOper struct {
	Endpoints        []EndpointOper `json:"endpoints,omitempty"`
	NumEndpoints     int            `json:"numEndpoints,omitempty"` // over all groups it is attached to
	PolicyViolations int            `json:"policyViolations,omitempty"`
}

// PolicyInspect is the response of inspect for a policy.
type PolicyInspect = Inspect[Policy, PolicyOper]

func (p *Policy) ModelType() string { return "policy" }
func (p *Policy) ModelKey() string  { return joinKey(p.TenantName, p.PolicyName) }
func (p *Policy) SetKey(key string) { p.Key = key }

// Rule allows or denies traffic of the groups its policy is attached to.
type Rule struct {
	Key               string       `json:"key"`
	Action            string       `json:"action,omitempty" model:"required oneof=allow|deny" doc:"verdict" column:"11 Action"`
	Direction         string       `json:"direction,omitempty" model:"required oneof=in|out" doc:"seen from the group the policy is attached to"`
	FromEndpointGroup string       `json:"fromEndpointGroup,omitempty" model:"max=64 rule=NAME0" doc:"peer group of an incoming rule" column:"3 From EndpointGroup"`
	FromIPAddress     string       `json:"fromIpAddress,omitempty" model:"rule=RULEIP" doc:"peer address or CIDR of an incoming rule" column:"5 From IpAddress"`
	FromNetwork       string       `json:"fromNetwork,omitempty" model:"max=64 rule=NAME0" doc:"peer network of an incoming rule" column:"4 From Network"`
	PolicyName        string       `json:"policyName,omitempty" model:"key=2 required max=64 rule=NAME" doc:"policy of the rule"`
	Port              int          `json:"port,omitempty" model:"max=65535" doc:"service port, of tcp, udp or 132 (SCTP); 0 is any"  column:"10 Port"`
	Priority          int          `json:"priority,omitempty" model:"min=1 max=100 default=1" doc:"higher wins" column:"2 Priority"`
	Protocol          string       `json:"protocol,omitempty" model:"rule=PROTOCOL" doc:"tcp, udp, icmp or a number up to 255; empty is any" column:"9 Protocol"`
	RuleID            string       `json:"ruleId,omitempty" model:"key=3 required max=64 rule=NAME" doc:"name of the rule within its policy" column:"1 Rule"`
	TenantName        string       `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the rule"`
	ToEndpointGroup   string       `json:"toEndpointGroup,omitempty" model:"max=64 rule=NAME0" doc:"peer group of an outgoing rule" column:"6 To EndpointGroup"`
	ToIPAddress       string       `json:"toIpAddress,omitempty" model:"rule=RULEIP" doc:"peer address or CIDR of an outgoing rule, or own address of an incoming one" column:"8 To IpAddress"`
	ToNetwork         string       `json:"toNetwork,omitempty" model:"max=64 rule=NAME0" doc:"peer network of an outgoing rule" column:"7 To Network"`
	LinkSets          RuleLinkSets `json:"link-sets"`
	Links             RuleLinks    `json:"links"`
}

// RuleLinkSets are the objects linked to a rule.
type RuleLinkSets struct {
	Policies LinkSet `json:"Policies,omitempty"`
}

// RuleLinks are the single objects a rule refers to.
type RuleLinks struct {
	MatchEndpointGroup Link `json:"MatchEndpointGroup"`
}

func (r *Rule) ModelType() string { return "rule" }
func (r *Rule) ModelKey() string  { return joinKey(r.TenantName, r.PolicyName, r.RuleID) }
func (r *Rule) SetKey(key string) { r.Key = key }
