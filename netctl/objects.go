package netctl

import "github.com/contiv/netplugin/contivmodel"

// Arguments of several verbs.
var (
	tenantArg   = arg{"tenant", "tenantName"}
	networkArg  = arg{"network", "networkName"}
	groupArg    = arg{"group", "groupName"}
	policyArg   = arg{"policy", "policyName"}
	ruleArg     = arg{"rule", "ruleId"}
	profileArg  = arg{"profile", "profileName"}
	appArg      = arg{"profile", "appProfileName"}
	serviceArg  = arg{"service", "serviceName"}
	hostArg     = arg{"host", "hostname"}
	contractArg = arg{"contracts group", "contractsGroupName"}
)

// tenantBounds are the flags for limits on a tenant's administrators, and on where its rules apply.
var tenantBounds = []flag{
	{names: "max-endpoints", field: "maxEndpoints"},
	{names: "max-networks", field: "maxNetworks"},
	{names: "max-groups", field: "maxGroups"},
	{names: "max-rules", field: "maxRules"},
	{names: "max-services", field: "maxServices"},
	{names: "namespaces", field: "namespaces"},
	{names: "policy-mode", field: "policyMode"},
	{names: "vlans", field: "vlans"},
	{names: "vxlans", field: "vxlans"},
}

// objects is the command line: all commands for objects, in alphabetical order.
var objects = []object{
	{name: "aci-gw", typ: "aciGw", usage: "Connection to an ACI fabric", verbs: []verb{
		{name: "info", usage: "Show the connection", run: info},
		{name: "inspect", usage: "Show the connection with its run-time data", run: inspect},
		{name: "set", usage: "Change the connection", run: set, done: "Updating aciGw", flags: []flag{
			{names: "path-bindings,p", field: "pathBindings"},
			{names: "node-bindings,n", field: "nodeBindings"},
			{names: "phys-dom,d", field: "physicalDomain"},
			{names: "enforce-policies,e", field: "enforcePolicies", value: "yes"},
			{names: "include-common-tenant,i", field: "includeCommonTenant", value: "no"},
		}},
	}},
	{name: "app-profile", typ: "appProfile", usage: "Application profiles", verbs: []verb{
		{name: "create", usage: "Create an application profile", args: []arg{appArg}, run: create,
			done: "Creating AppProfile {key}", flags: []flag{{names: "group,g", field: "endpointGroups", usage: "member groups, comma separated", comma: true}}},
		{name: "update", usage: "Replace the groups of an application profile", args: []arg{appArg}, run: create,
			done: "Updating AppProfile {key}", flags: []flag{{names: "group,g", field: "endpointGroups", usage: "member groups, comma separated", comma: true}}},
		{name: "rm", usage: "Delete an application profile", args: []arg{appArg}, run: remove, done: "Deleting AppProfile {key}"},
		{name: "ls", usage: "List application profiles", run: list},
		{name: "inspect", usage: "Show an application profile", args: []arg{appArg}, run: inspect},
		{name: "group-ls", usage: "List the groups of an application profile", args: []arg{appArg}, run: listMembers},
	}},
	{name: "bgp", typ: "Bgp", usage: "BGP speakers", verbs: []verb{
		{name: "create", usage: "Make a node a BGP speaker", args: []arg{hostArg}, spare: true, run: create, check: checkBgp,
			done: "Creating Bgp router config: {key}", flags: []flag{
				{names: "router-ip", field: "routerip"},
				{names: "as", field: "as"},
				{names: "neighbor-as", field: "neighbor-as"},
				{names: "neighbor", field: "neighbor"},
				{names: "neighbors", field: "neighbors", usage: "further neighbour of IPv4 or IPv6, address=AS"},
				{names: "router-ipv6", field: "ipv6Routerip"},
				{names: "password", field: "password", usage: "password of all sessions (TCP MD5, RFC 2385); others see it in the list of processes"},
				{names: "password-stdin", usage: "read the password from standard input"},
				{names: "hold-time", field: "holdTime"},
			}},
		{name: "rm", usage: "Delete a BGP speaker", args: []arg{hostArg}, run: remove, done: "Deleting Bgp router config: {key}"},
		{name: "ls", usage: "List BGP speakers", run: list},
		{name: "inspect", usage: "Show a BGP speaker with its run-time data", args: []arg{hostArg}, run: inspect},
	}},
	{name: "endpoint", aliases: []string{"ep"}, segment: contivmodel.EndpointSegment, usage: "Endpoints", verbs: []verb{
		{name: "ls", usage: "List endpoints", run: listEndpoints},
		{name: "inspect", usage: "Show an endpoint by id, container id or name", args: []arg{{label: "endpoint"}}, run: inspect},
	}},
	{name: "external-contracts", typ: "extContractsGroup", usage: "Contracts that exist in an ACI fabric",
		cells: map[string]func(any) string{"contracts": bracketed}, verbs: []verb{
			{name: "create", usage: "Create a group of external contracts", args: []arg{contractArg}, run: create, check: checkContracts,
				done: "Creating ExternalContracts {key}", flags: []flag{
					{names: "consumed,c", usage: "the contracts are consumed"},
					{names: "provided,p", usage: "the contracts are provided"},
					{names: "contract,a", field: "contracts"},
				}},
			{name: "rm", usage: "Delete a group of external contracts", args: []arg{contractArg}, run: remove,
				done: "Deleting external contracts group {name} in tenant {tenant}"},
			{name: "ls", usage: "List groups of external contracts", run: list},
			{name: "inspect", usage: "Show a group of external contracts", args: []arg{contractArg}, run: inspect},
		}},
	{name: "global", typ: "global", usage: "Cluster-wide configuration", verbs: []verb{
		{name: "info", usage: "Show the configuration", run: info},
		{name: "inspect", usage: "Show the configuration with its run-time data", run: inspect},
		{name: "set", usage: "Change the configuration", run: set, done: "Updating global", flags: []flag{
			{names: "fabric-mode,f", field: "networkInfraType"},
			{names: "vlan-range,v", field: "vlans"},
			{names: "vxlan-range,x", field: "vxlans"},
			{names: "fwd-mode,b", field: "fwdMode"},
			{names: "arp-mode,a", field: "arpMode"},
			{names: "private-subnet,s", field: "pvtSubnet"},
		}},
	}},
	{name: "group", typ: "endpointGroup", usage: "Endpoint groups", verbs: []verb{
		{name: "create", usage: "Create an endpoint group, or replace its policies, profile and contracts",
			args: []arg{networkArg, groupArg}, run: create, done: "Creating EndpointGroup {key}", flags: []flag{
				{names: "policy,p", field: "policies", usage: "policy"},
				{names: "networkprofile,n", field: "netProfile"},
				{names: "external-contract,e", field: "extContractsGrps", usage: "external contract group"},
				{names: "ip-pool,r", field: "ipPool"},
				{names: "epg-tag,tag", field: "cfgdTag"},
			}},
		{name: "update", usage: "Change the policies, profile or contracts of an endpoint group, and keep the others",
			args: []arg{groupArg}, run: update, done: "Updating EndpointGroup {key}", flags: []flag{
				{names: "policy,p", field: "policies", usage: "policy; the list replaces the present one, an empty text empties it"},
				{names: "networkprofile,n", field: "netProfile"},
				{names: "external-contract,e", field: "extContractsGrps", usage: "external contract group; the list replaces the present one, an empty text empties it"},
			}},
		{name: "rm", usage: "Delete an endpoint group", args: []arg{groupArg}, run: remove, done: "Deleting EndpointGroup {key}"},
		{name: "ls", usage: "List endpoint groups", run: list},
		{name: "inspect", usage: "Show an endpoint group with its run-time data", args: []arg{groupArg}, run: inspect},
	}},
	{name: "netprofile", typ: "netprofile", usage: "Network profiles: rate limit and marking",
		cells: map[string]func(any) string{"bandwidth": normalRate}, verbs: []verb{
			{name: "create", usage: "Create or change a network profile", args: []arg{profileArg}, run: create,
				done: "Creating netprofile {key}", flags: []flag{
					{names: "bandwidth,b", field: "bandwidth"},
					{names: "dscp,d", field: "DSCP"},
					{names: "burst,s", field: "burst"},
				}},
			{name: "rm", usage: "Delete a network profile", args: []arg{profileArg}, run: remove, done: "Deleting netprofile {key}"},
			{name: "ls", usage: "List network profiles", run: list},
			{name: "inspect", usage: "Show a network profile", args: []arg{profileArg}, run: inspect},
		}},
	{name: "network", aliases: []string{"net"}, typ: "network", usage: "Networks", verbs: []verb{
		{name: "create", usage: "Create a network", args: []arg{networkArg}, run: create, check: checkNetwork,
			done: "Creating network {key}", flags: []flag{
				{names: "nw-type,n", field: "nwType", value: "data"},
				{names: "encap,e", field: "encap", value: "vxlan"},
				{names: "pkt-tag,p", field: "pktTag"},
				{names: "subnet,s", field: "subnet"},
				{names: "gateway,g", field: "gateway"},
				{names: "subnetv6,s6", field: "ipv6Subnet"},
				{names: "gatewayv6,g6", field: "ipv6Gateway"},
				{names: "nw-tag,tag", field: "cfgdTag"},
			}},
		{name: "rm", usage: "Delete a network", args: []arg{networkArg}, run: remove, done: "Deleting network {key}"},
		{name: "ls", usage: "List networks", run: list},
		{name: "inspect", usage: "Show a network with its run-time data", args: []arg{networkArg}, run: inspect},
	}},
	{name: "network-policy", aliases: []string{"netpol"}, segment: contivmodel.NetworkPolicySegment, usage: "NetworkPolicies of Kubernetes", verbs: []verb{
		{name: "inspect", usage: "Tell on which nodes a NetworkPolicy of Kubernetes is in force, and why not on others", args: []arg{{label: "policy"}}, run: inspect},
	}},
	{name: "policy", typ: "policy", usage: "Policies and their rules", verbs: []verb{
		{name: "create", usage: "Create a policy", args: []arg{policyArg}, run: create, done: "Creating policy {key}"},
		{name: "rm", usage: "Delete a policy and its rules", args: []arg{policyArg}, run: remove, done: "Deleting policy {key}"},
		{name: "ls", usage: "List policies", run: list},
		{name: "inspect", usage: "Show a policy with its run-time data", args: []arg{policyArg}, run: inspect},
		{name: "rule-add", typ: "rule", usage: "Add a rule to a policy", args: []arg{policyArg, ruleArg}, run: create, check: checkRule,
			done: "Creating rule {key}", flags: []flag{
				{names: "priority,p", field: "priority", value: 1},
				{names: "direction,d", field: "direction", value: "in"},
				{names: "from-group,g", field: "fromEndpointGroup"},
				{names: "to-group,e", field: "toEndpointGroup"},
				{names: "from-network,n", field: "fromNetwork"},
				{names: "to-network,o", field: "toNetwork"},
				{names: "from-ip-address,i", field: "fromIpAddress"},
				{names: "to-ip-address,s", field: "toIpAddress"},
				{names: "protocol,l", field: "protocol"},
				{names: "port,P", field: "port"},
				{names: "action,j", field: "action", value: "allow"},
			}},
		{name: "rule-rm", typ: "rule", usage: "Delete a rule", args: []arg{policyArg, ruleArg}, run: remove, done: "Deleting rule {key}"},
		{name: "rule-ls", typ: "rule", usage: "List the rules of a policy", args: []arg{policyArg}, run: listRules},
		{name: "rule-inspect", typ: "rule", usage: "Show a rule", args: []arg{policyArg, ruleArg}, run: inspect},
	}},
	{name: "service", typ: "serviceLB", usage: "Load-balanced services: a virtual address in front of labelled endpoints",
		cells: map[string]func(any) string{"selectors": bracketed}, verbs: []verb{
			{name: "create", usage: "Create or change a service", args: []arg{serviceArg}, run: create,
				done: "Creating ServiceLB {key}", flags: []flag{
					{names: "network,s", field: "networkName"},
					{names: "selector,l", field: "selectors", usage: "label of the providers, key=value"},
					{names: "port,p", field: "ports", usage: "servicePort:providerPort:protocol"},
					{names: "preferred-ip,ip", field: "ipAddress"},
					{names: "preferred-ipv6,ip6", field: "ipv6Address"},
					{names: "external-ip,x", field: "externalIps"},
					{names: "node-port,n", field: "nodePorts"},
					{names: "affinity,a", field: "sessionAffinity"},
				}},
			{name: "rm", usage: "Delete a service", args: []arg{serviceArg}, run: remove, done: "Deleting Service {name},{tenant}"},
			{name: "ls", usage: "List services", spare: true, run: list},
			{name: "inspect", usage: "Show a service with its run-time data", args: []arg{serviceArg}, run: inspect},
		}},
	{name: "tenant", typ: "tenant", usage: "Tenants", verbs: []verb{
		{name: "create", usage: "Create a tenant; one that exists stays as it is", args: []arg{tenantArg}, run: createNew, done: "Creating tenant: {key}",
			flags: append([]flag{{names: "default-network", field: "defaultNetwork"}}, tenantBounds...)},
		{name: "update", usage: "Change what who administers the tenant may make, and how far its rules judge", args: []arg{tenantArg}, run: update, done: "Updating tenant {key}", flags: tenantBounds},
		{name: "rm", usage: "Delete a tenant", args: []arg{tenantArg}, run: remove, done: "Deleting tenant {key}"},
		{name: "ls", usage: "List tenants", run: list},
		{name: "inspect", usage: "Show a tenant with its run-time data", args: []arg{tenantArg}, run: inspect},
	}},
}
