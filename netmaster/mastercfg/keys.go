// Package mastercfg holds the state records that netmaster derives from the user's intent and netplugin turns
// into a datapath, with their keys. Names, JSON and keys are those of the original controller, so that tools
// which read the store keep working; docs/architecture.md lists the few additions.
//
// A record is a plain struct. Its key is a prefix and an id, such as EndpointPrefix and that of the endpoint;
// keys with several parts are made by functions of this package.
package mastercfg

import "strings"

// Scheme is the scheme of the REST servers of netmaster and the agents in an open cluster.
const Scheme = "http"

// Roots of the key space. Every root ends in a slash, so that a listing of one
// kind never matches another whose name it begins.
const (
	Root       = "/contiv.io/"
	StateRoot  = Root + "state/"         // derived configuration, read by agents
	OperRoot   = Root + "oper/"          // run-time state
	GlobalRoot = Root + "master/config/" // run-time configuration pushed to agents
	ModelRoot  = Root + "obj/modeldb/"   // the user's intent
	AccessRoot = Root + "access/"        // joining, logins and rights; for netmasters only
)

// Prefixes of the record kinds.
const (
	NetworkPrefix       = StateRoot + "nets/"
	EndpointPrefix      = StateRoot + "eps/"
	EndpointGroupPrefix = StateRoot + "endpointGroups/"
	PolicyPrefix        = StateRoot + "policy/"
	PolicyRulePrefix    = StateRoot + "policyRule/"
	ServiceLBPrefix     = StateRoot + "serviceLB/"
	ProviderPrefix      = StateRoot + "provider/"
	BgpPrefix           = StateRoot + "bgp/"
	VRFPrefix           = StateRoot + "vrfs/"
	K8sPodPrefix        = StateRoot + "k8sPod/"
	K8sServicePrefix    = StateRoot + "k8sSvc/"
	K8sBackendPrefix    = StateRoot + "k8sBackend/"
	K8sNodePrefix       = StateRoot + "k8sNode/"
	K8sClassPrefix      = StateRoot + "k8sClass/"
	K8sPolicyPrefix     = StateRoot + "k8sPolicy/"

	OperEndpointPrefix = OperRoot + "eps/"
	OvsDriverPrefix    = OperRoot + "ovs-driver/"
	NodeGCPrefix       = OperRoot + "gc/"
	DockerPrefix       = OperRoot + "docknet/"
	HeldPrefix         = OperRoot + "addresses/"
	IPv4CounterPrefix  = OperRoot + "ipv4/"
	IPv6CounterPrefix  = OperRoot + "ipv6/"
	K8sRefusedPrefix   = OperRoot + "k8s-refused/"
)

// Keys of the single records.
const (
	GlobalConfigKey  = GlobalRoot + "global"
	K8sEpochKey      = StateRoot + "k8sEpoch/global"
	GlobalStateKey   = StateRoot + "global/global"
	GlobalOperKey    = OperRoot + "global/global"
	K8sRangesKey     = StateRoot + "k8sRanges/global"
	VLANConfigKey    = StateRoot + "auto-vlan/global"
	VXLANConfigKey   = StateRoot + "auto-vxlan/global"
	LeaderLock       = "netmaster/leader" // lock name, below /contiv.io/lock/
	MasterService    = "netmaster"        // service names, below /contiv.io/service/
	AgentService     = "netplugin"
	AgentVTEPService = "netplugin.vtep"
)

// NetworkID returns the state id of a network, "N.T".
//
// Names may contain dots, so different pairs can give the same id; creation checks that the composed key is
// absent, and ids are never parsed.
func NetworkID(tenant, network string) string { return network + "." + tenant }

// EndpointID returns the state id of an endpoint, "N.T-C".
func EndpointID(networkID, container string) string { return networkID + "-" + container }

// NativeEndpointID returns the id of an endpoint that was requested without a container.
func NativeEndpointID(host string) string { return host + "-native-intf" }

// HeldKey returns the key of an address of a network that is assigned without an endpoint. A network id
// contains no slash, whatever its dots.
func HeldKey(networkID, address string) string { return HeldPrefix + networkID + "/" + address }

// ProviderKey returns the key of an address behind a service.
func ProviderKey(serviceID, address string) string { return ProviderPrefix + serviceID + "/" + address }

// EndpointGroupID returns the state id of a group, "G:T": the reverse of the model key.
func EndpointGroupID(tenant, group string) string { return group + ":" + tenant }

// PolicyID returns the id of a policy's attachment to a group, "T:G:T:P".
func PolicyID(groupKey, policyKey string) string { return groupKey + ":" + policyKey }

// RuleID returns the id of one directional rule, "T:G:T:P:T:P:R:inRx".
func RuleID(policyID, ruleKey, direction string) string {
	return policyID + ":" + ruleKey + ":" + direction
}

// Directions of a directional rule: the side of the model rule (in, out) and
// whether the packets it matches go to the group (Rx) or come from it (Tx).
const (
	InRx  = "inRx"
	InTx  = "inTx"
	OutRx = "outRx"
	OutTx = "outTx"
)

// RuleDirection returns the direction in the id of a directional rule.
func RuleDirection(ruleID string) string { return ruleID[strings.LastIndexByte(ruleID, ':')+1:] }

// IsOfFirstPackets reports whether a directional rule, by its id, matches packets in the direction of the model
// rule, such as the first one of a connection. The others match replies.
func IsOfFirstPackets(ruleID string) bool {
	direction := RuleDirection(ruleID)
	return direction == InRx || direction == OutTx
}

// ServiceID returns the state id of a service, "S:T".
func ServiceID(tenant, service string) string { return service + ":" + tenant }

// DockerNetworkKey returns the key of the docker network of a network, or of a group: "T.N.G", which
// ends in a dot without a group.
func DockerNetworkKey(tenant, network, group string) string {
	return DockerPrefix + tenant + "." + network + "." + group
}

// ModelKey returns the store key of a model object of a type.
func ModelKey(objType, key string) string { return ModelRoot + objType + "/" + key }
