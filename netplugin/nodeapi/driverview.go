package nodeapi

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// agentPort was the port of the original agent's RPC server, which readers of MyPort expect.
const agentPort = 9002

// bridges is the answer of /inspect/driver. VLAN is nil on a node without an uplink.
type bridges struct {
	VLAN  *bridge `json:"vlan"`
	VXLAN *bridge `json:"vxlan"`
}

// bridge is the view of one bridge, with the member names of the original agent.
type bridge struct {
	LocalIP      string `json:"LocalIp"`
	MyPort       int
	MyAddr       string
	IsConnected  bool
	DpName       string
	Protopath    int
	MasterDb     struct{}
	VtepTable    map[string]string       // host -> VTEP
	EndpointDb   map[string]endpointView // "ip:tenant", or the endpoint's id without an address
	VrfNameIDMap map[string]uint16       `json:"VrfNameIdMap"` // tenant -> number
	VrfDb        map[string]vrfView
	FwdMode      string
	ArpMode      string
	Stats        map[string]int
	ErrStats     map[string]string
	Uplinks      map[string]string `json:",omitempty"` // link to the physical network -> its problem, "" if none
	Datapath     datapathView
}

type endpointView struct {
	EndpointID    string
	EndpointGroup uint16
	IPAddr        string `json:"IpAddr"`
	IPv6Addr      string `json:"Ipv6Addr"`
	Vrf           string
	MacAddrStr    string
	Vlan          uint16
	Vni           uint32
	OriginatorIP  string `json:"OriginatorIp"`
	Local         bool
}

// vrfView is a tenant's networks by id.
type vrfView map[string]networkView

type networkView struct {
	Vni      uint32
	Vlan     uint16
	Subnet   string
	Gateway  string
	Subnet6  string `json:",omitempty"`
	Gateway6 string `json:",omitempty"`
	// Receivers of broadcasts in a bridged network.
	FloodMembers int      `json:",omitempty"` // endpoints on this node
	FloodVteps   []string `json:",omitempty"` // other nodes
}

type datapathView struct {
	Type        string             // system or netdev
	Version     string             `json:",omitempty"` // of Open vSwitch, upstream version
	Package     string             `json:",omitempty"` // the same as a Debian package version
	Replaced    bool               `json:",omitempty"` // the package was installed after the running Open vSwitch was started, which may be an earlier version
	Listeners   []drivers.Listener `json:",omitempty"` // where other programs can control the switch
	InSync      bool
	PolicyAgent map[string]ruleView // by rule id
	Pending     map[string]string   // wanted objects that lack a part -> which part
}

type ruleView struct {
	Priority           int
	SrcGroup, DstGroup uint16
	Src, Dst           string
	Protocol           uint8
	SrcPort, DstPort   uint16
	TCPFlags           string `json:"TcpFlags"`
	Action             string
}

// driverView arranges an inspection in the shape of /inspect/driver.
func driverView(ctrlIP string, in agent.Inspection) bridges {
	if in.Status.VLAN == nil {
		return bridges{VXLAN: bridgeView(ctrlIP, in, in.Status, pipeline.VXLAN)}
	}
	return bridges{
		VXLAN: bridgeView(ctrlIP, in, *in.Status.VXLAN, pipeline.VXLAN),
		VLAN:  bridgeView(ctrlIP, in, *in.Status.VLAN, pipeline.VLAN),
	}
}

// bridgeView returns the bridge with the networks of an encapsulation.
func bridgeView(ctrlIP string, in agent.Inspection, status drivers.Status, encap pipeline.Encap) *bridge {
	b := bridge{
		LocalIP: text(in.VTEP), MyPort: agentPort, MyAddr: ctrlIP,
		IsConnected: status.Connected, DpName: status.Bridge,
		VtepTable: make(map[string]string), EndpointDb: make(map[string]endpointView),
		VrfNameIDMap: in.VRFs, VrfDb: make(map[string]vrfView),
		FwdMode: in.FwdMode, ArpMode: in.ArpMode,
		Stats:    map[string]int{"Flows": status.Flows, "FlowsOfOthers": status.Others, "Ports": status.Ports, "Objects": 0},
		ErrStats: make(map[string]string), Uplinks: status.Uplinks,
		Datapath: datapathView{
			Type: status.Datapath, InSync: status.InSync,
			PolicyAgent: make(map[string]ruleView), Pending: in.Pending,
		},
	}
	if status.LastError != "" {
		b.ErrStats["LastError"] = status.LastError
	}
	if len(status.Conflicts) > 0 {
		b.ErrStats["Conflicts"] = strings.Join(status.Conflicts, "; ")
	}
	if len(in.Refused) > 0 {
		b.ErrStats["Registrations"] = strings.Join(in.Refused, "; ")
	}
	for host, vtep := range in.Peers {
		b.VtepTable[host] = vtep.String()
	}
	for _, object := range in.Objects {
		if own, shared := pipeline.EncapOf(object); shared || own == encap {
			b.add(object, in)
			b.Stats["Objects"]++
		}
	}
	return &b
}

func (b *bridge) add(object pipeline.Object, in agent.Inspection) {
	switch o := object.(type) {
	case pipeline.Network:
		if b.VrfDb[o.Tenant] == nil {
			b.VrfDb[o.Tenant] = make(vrfView)
		}
		b.VrfDb[o.Tenant][o.ID] = networkView{
			Vni: o.VNI, Vlan: o.Tag, Subnet: prefixText(o.Subnet), Gateway: text(o.Gateway),
			Subnet6: prefixText(o.Subnet6), Gateway6: text(o.Gateway6),
		}
	case pipeline.FloodSet: // objects are sorted: its network came before
		for _, vrf := range b.VrfDb {
			if view, ours := vrf[o.Network]; ours {
				view.FloodMembers = len(o.Members)
				for _, vtep := range o.VTEPs {
					view.FloodVteps = append(view.FloodVteps, vtep.String())
				}
				vrf[o.Network] = view
			}
		}
	case pipeline.Endpoint:
		view := endpointView{
			EndpointID: o.ID, EndpointGroup: o.Group, IPAddr: text(o.IPv4), IPv6Addr: text(o.IPv6), Vrf: o.Tenant,
			MacAddrStr: net.HardwareAddr(o.MAC[:]).String(), Vlan: o.Tag, Vni: o.VNI, OriginatorIP: text(o.VTEP), Local: o.Local,
		}
		if o.Local {
			view.OriginatorIP = text(in.VTEP)
		}
		key := o.ID
		if o.IPv4.IsValid() {
			key = fmt.Sprintf("%s:%s", o.IPv4, o.Tenant)
		}
		b.EndpointDb[key] = view
	case pipeline.Rule:
		view := ruleView{
			Priority: o.Priority, SrcGroup: o.SrcGroup, DstGroup: o.DstGroup, Src: prefixText(o.Src), Dst: prefixText(o.Dst),
			Protocol: o.Protocol, SrcPort: o.SrcPort, DstPort: o.DstPort, TCPFlags: o.TCPFlags, Action: "deny",
		}
		if o.Allow {
			view.Action = "allow"
		}
		b.Datapath.PolicyAgent[o.ID] = view
	}
}

// text returns the address as text, empty if it is invalid.
func text(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

func prefixText(prefix netip.Prefix) string {
	if !prefix.IsValid() {
		return ""
	}
	return prefix.String()
}
