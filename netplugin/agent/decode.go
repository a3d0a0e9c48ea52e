package agent

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unique"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A record is decoded and validated once, when it arrives. The part of it that the datapath needs is stored as
// a comparable value, so that a write which changes only bookkeeping (an older netmaster rewrites a network's
// record for each address that it assigns) is recognised as no change.

// network is a decoded network; problem says why it cannot be served.
type network struct {
	record  mastercfg.CfgNetworkState // without the address maps
	part    pipeline.Network          // all but the VRF
	problem string
}

// endpoint is a decoded endpoint. A node caches the endpoints of the whole cluster, including tenants that it
// does not program, so that a tenant can be programmed at once. The record itself, which is larger than the
// rest, is kept for the node's own endpoints only.
type endpoint struct {
	netID   string
	host    string
	part    pipeline.Endpoint // own fields; those of the network and the node are set later
	record  *mastercfg.CfgEndpointState
	since   int64 // store revision at which it was placed on its host; 0: attached in an earlier run
	problem string

	group, container string // names for the name server
	pod              string // UID of its Kubernetes pod; empty: none
}

// rule is a decoded rule; invalid ones are not stored.
type rule struct {
	tenant string
	part   pipeline.Rule
	ends   pipeline.Ends // directions in which it is final, if the tenant's policy mode is final
}

// ignored decodes a member that is expensive to decode and not needed.
type ignored struct{}

// UnmarshalJSON accepts anything.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

func decodeNetwork(id string, value []byte) (network, error) {
	var wire struct {
		mastercfg.CfgNetworkState
		IPAllocMap   ignored `json:"ipAllocMap"`
		IPv6AllocMap ignored `json:"ipv6AllocMap"`
	}
	if err := json.Unmarshal(value, &wire); err != nil {
		return network{}, err
	}
	n := network{record: wire.CfgNetworkState}
	n.record.ID = id
	part, err := networkPart(id, n.record)
	if err != nil {
		n.problem = err.Error()
		return n, nil
	}
	n.part = part
	return n, nil
}

func networkPart(id string, r mastercfg.CfgNetworkState) (pipeline.Network, error) {
	n := pipeline.Network{ID: id, Tenant: r.Tenant}
	var err error
	if n.Encap, n.VNI, n.Tag, err = segmentPart(r); err != nil {
		return n, err
	}
	if n.Subnet, err = parseSubnet(r.SubnetIP, r.SubnetLen, v4); err != nil {
		return n, fmt.Errorf("subnet: %w", err)
	}
	if first, last, ranged := strings.Cut(r.IPAddrRange, "-"); ranged {
		n.First, _ = parseAddr(first, v4) // else all of the subnet counts
		n.Last, _ = parseAddr(last, v4)
	}
	if n.Gateway, err = parseAddr(r.Gateway, v4); err != nil {
		return n, fmt.Errorf("gateway: %w", err)
	}
	if n.Subnet6, err = parseSubnet(r.IPv6Subnet, r.IPv6SubnetLen, v6); err != nil {
		return n, fmt.Errorf("IPv6 subnet: %w", err)
	}
	if n.Gateway6, err = parseAddr(r.IPv6Gateway, v6); err != nil {
		return n, fmt.Errorf("IPv6 gateway: %w", err)
	}
	return n, nil
}

// segmentPart returns what identifies a network between nodes.
func segmentPart(r mastercfg.CfgNetworkState) (encap pipeline.Encap, vni uint32, tag uint16, err error) {
	switch {
	case r.PktTagType == pipeline.VLAN.String():
		if r.PktTag < 1 || r.PktTag > pipeline.MaxVLAN {
			return pipeline.VLAN, 0, 0, fmt.Errorf("VLAN %d is not in 1..%d", r.PktTag, pipeline.MaxVLAN)
		}
		return pipeline.VLAN, 0, uint16(r.PktTag), nil
	case r.PktTagType != pipeline.VXLAN.String():
		return 0, 0, 0, fmt.Errorf("encapsulation %q is not known", r.PktTagType)
	case r.ExtPktTag < 1 || r.ExtPktTag > pipeline.MaxVNI:
		return 0, 0, 0, fmt.Errorf("VNI %d is not in 1..%d", r.ExtPktTag, pipeline.MaxVNI)
	case r.PktTag < 1 || r.PktTag > pipeline.MaxTag:
		return 0, 0, 0, fmt.Errorf("local tag %d is not in 1..%d", r.PktTag, pipeline.MaxTag)
	}
	return pipeline.VXLAN, uint32(r.ExtPktTag), uint16(r.PktTag), nil
}

// decodeEndpoint decodes a record. It keeps the whole record if own is the endpoint's host.
func decodeEndpoint(id string, value []byte, own string) (endpoint, error) {
	var record mastercfg.CfgEndpointState
	if err := json.Unmarshal(value, &record); err != nil {
		return endpoint{}, err
	}
	record.ID = id
	// The names repeat in very many records, so each is stored once.
	record.NetID, record.HomingHost = unique.Make(record.NetID).Value(), unique.Make(record.HomingHost).Value()
	group, _, _ := strings.Cut(record.EndpointGroupKey, ":")
	e := endpoint{netID: record.NetID, host: record.HomingHost,
		group: unique.Make(group).Value(), container: strings.Clone(strings.TrimPrefix(record.EPCommonName, "/")), pod: strings.Clone(record.PodUID)}
	if e.host == own {
		e.record = &record
	}
	part, err := endpointPart(id, record)
	if err != nil {
		e.problem = err.Error()
		return e, nil
	}
	e.part = part
	return e, nil
}

func endpointPart(id string, r mastercfg.CfgEndpointState) (pipeline.Endpoint, error) {
	e := pipeline.Endpoint{ID: id, Network: r.NetID}
	if r.EndpointGroupID < 0 || r.EndpointGroupID > pipeline.MaxGroup {
		return e, fmt.Errorf("group id %d is not in 0..%d", r.EndpointGroupID, pipeline.MaxGroup)
	}
	e.Group = uint16(r.EndpointGroupID)
	mac, err := net.ParseMAC(r.MacAddress)
	if err != nil || len(mac) != len(e.MAC) || mac[0]&1 != 0 {
		return e, fmt.Errorf("MAC address %q is not a unicast Ethernet address", r.MacAddress)
	}
	copy(e.MAC[:], mac)
	if e.IPv4, err = parseAddr(r.IPAddress, v4); err != nil {
		return e, fmt.Errorf("address: %w", err)
	}
	if e.IPv6, err = parseAddr(r.IPv6Address, v6); err != nil {
		return e, fmt.Errorf("IPv6 address: %w", err)
	}
	return e, nil
}

func decodeRule(id string, value []byte) (rule, error) {
	var r mastercfg.CfgPolicyRule
	if err := json.Unmarshal(value, &r); err != nil {
		return rule{}, err
	}
	tenant, _, _ := strings.Cut(id, ":")
	part, err := rulePart(id, r)
	ends := map[string]pipeline.Ends{mastercfg.InRx: pipeline.EndsIn, mastercfg.OutTx: pipeline.EndsOut}[mastercfg.RuleDirection(id)]
	return rule{tenant, part, ends}, err
}

func rulePart(id string, r mastercfg.CfgPolicyRule) (pipeline.Rule, error) {
	rule := pipeline.Rule{
		ID: id, Priority: r.Priority, Protocol: r.IPProtocol,
		SrcPort: r.SrcPort, DstPort: r.DstPort, TCPFlags: r.TCPFlags, Allow: r.Action == "allow",
	}
	switch {
	case r.RuleID != id:
		return rule, fmt.Errorf("RuleId %q differs from the key", r.RuleID)
	case r.Priority < 1 || r.Priority > pipeline.MaxPriority:
		return rule, fmt.Errorf("priority %d is not in 1..%d", r.Priority, pipeline.MaxPriority)
	case r.Action != "allow" && r.Action != "deny":
		return rule, fmt.Errorf("action %q is neither allow nor deny", r.Action)
	case !pipeline.ValidTCPFlags(r.TCPFlags):
		return rule, fmt.Errorf("TCP flags %q are unknown", r.TCPFlags)
	}
	for _, group := range []struct {
		name string
		id   int
		dst  *uint16
	}{{"source", r.SrcEndpointGroup, &rule.SrcGroup}, {"destination", r.DstEndpointGroup, &rule.DstGroup}} {
		if group.id < 0 || group.id > pipeline.MaxGroup {
			return rule, fmt.Errorf("%s group id %d is not in 0..%d", group.name, group.id, pipeline.MaxGroup)
		}
		*group.dst = uint16(group.id)
	}
	var err error
	if rule.Src, err = parsePrefix(r.SrcIPAddr); err != nil {
		return rule, fmt.Errorf("source: %w", err)
	}
	if rule.Dst, err = parsePrefix(r.DstIPAddr); err != nil {
		return rule, fmt.Errorf("destination: %w", err)
	}
	if rule.Src6, err = parsePrefix(r.SrcIPv6Addr); err != nil {
		return rule, fmt.Errorf("IPv6 source: %w", err)
	}
	if rule.Dst6, err = parsePrefix(r.DstIPv6Addr); err != nil {
		return rule, fmt.Errorf("IPv6 destination: %w", err)
	}
	return rule, nil
}

// decodeVRF returns the VRF number of a tenant, and whether its
// rules are final. Unknown modes, of a later netmaster, are not.
func decodeVRF(value []byte) (vrf uint16, final bool, err error) {
	var r mastercfg.VRFState
	if err := json.Unmarshal(value, &r); err != nil {
		return 0, false, err
	}
	if r.VRF == 0 {
		return 0, false, fmt.Errorf("VRF 0 is not in 1..%d", pipeline.MaxVRF)
	}
	return r.VRF, r.PolicyMode == mastercfg.PolicyFinal, nil
}

// decodePeer decodes a registry entry of the VTEP service.
func decodePeer(value []byte) (host string, vtep netip.Addr, err error) {
	var r struct{ Hostname, HostAddr string }
	if err := json.Unmarshal(value, &r); err != nil {
		return "", netip.Addr{}, err
	}
	if r.Hostname == "" {
		return "", netip.Addr{}, fmt.Errorf("entry names no host")
	}
	if vtep, err = parseMachine(r.HostAddr); err != nil {
		return "", netip.Addr{}, fmt.Errorf("host %s: %w", r.Hostname, err)
	}
	return r.Hostname, vtep, nil
}
