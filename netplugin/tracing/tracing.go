// Package tracing describes, table by table, what happens to a packet that an endpoint might send.
//
//	query --> packet (packet.go) --> the switch's own trace --> hop: tables, owners of flows, actions (words.go)
//
// The result comes from the switch, not from the records: it is valid for the flows that exist at this moment.
// The connection is assumed to be new. A node describes what its own switch does; netmaster asks the receiver's
// node about a packet that goes there. The switch does not reveal two things: which provider of a service is
// chosen (all are named, unless the switch remembers that of the client), and whether a meter would drop the packet.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/oftrace"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// Query describes the packet.
type Query struct {
	From     string     // id of the sending endpoint
	To       string     // id of an endpoint, or an address
	Protocol string     // tcp, udp, sctp or icmp
	Port     uint16     // destination port; unused for icmp
	Source   netip.Addr // source address of the packet; invalid: the sender's own
}

// Switch is the switch of a bridge.
type Switch interface {
	// Trace returns the switch's trace of a packet (package oftrace).
	Trace(ctx context.Context, packet string) (string, error)
	// TraceFrom is Trace for a packet that continues in a table.
	TraceFrom(ctx context.Context, table uint8, packet string) (string, error)
	// Ports returns the ports of endpoints, and of the host.
	Ports() []drivers.Port
	// Trunk returns the number of the port to other nodes.
	Trunk() uint32
}

// Tracer traces packets on the switches of a node. Safe for concurrent use.
type Tracer struct {
	Inspect  func() agent.Inspection
	Switches []Switch // the vxlan bridge, and with an uplink the vlan bridge
}

// Trace traces a packet. It returns NotFound for an endpoint that this node does not know, and
// Invalid for a query without meaning.
func (t Tracer) Trace(ctx context.Context, q Query) (hops.Hop, error) {
	w := newWorld(t.Inspect())
	from, known := w.endpoints[q.From]
	if !known {
		return hops.Hop{}, fault.New(fault.NotFound, "node %s: endpoint %s is not known here", w.host, q.From)
	}
	if int(from.Encap) >= len(t.Switches) {
		return hops.Hop{}, fault.New(fault.NotFound, "node %s: endpoint %s: no bridge for encapsulation %s", w.host, q.From, from.Encap)
	}
	w.tenant, w.vrf, w.encap, w.sw = from.Tenant, from.VRF, from.Encap, t.Switches[from.Encap]
	w.names = w.networks[from.Network].NameServers()
	for _, port := range w.sw.Ports() {
		w.ports[port.OFPort] = port.EndpointID
		w.numbers[port.EndpointID] = port.OFPort
	}
	to, err := w.receiver(from, q.To)
	if err != nil {
		return hops.Hop{}, err
	}
	packet, err := w.packet(from, to, q)
	if err != nil {
		return hops.Hop{}, err
	}
	trace, err := w.trace(ctx, packet)
	if err != nil {
		return hops.Hop{}, fault.New(fault.Unavailable, "node %s: %w", w.host, err)
	}
	hop := w.hop(trace, to)
	hop.Node, hop.Packet = w.host, packet
	if providers := w.providers(to, q); hop.Exit == hops.Unknown && len(providers) > 0 {
		hop.Note = strings.Join(append(trace.Warnings, "it goes to one of "+strings.Join(providers, ", ")), "; ")
	}
	return hop, nil
}

// trace asks the switch for a trace, which stops at a group. If all packets continue in one table after the
// group, so does the trace; a packet of a rate-limited port passes two of these.
func (w *world) trace(ctx context.Context, packet string) (oftrace.Trace, error) {
	text, err := w.sw.Trace(ctx, packet)
	if err != nil {
		return oftrace.Trace{}, err
	}
	t := w.traceTracked(ctx, oftrace.Parse(text))
	for table, more := behindGroup(t.Steps); more; {
		if text, err = w.sw.TraceFrom(ctx, table, accepted(cmp.Or(t.Final, packet))); err != nil {
			return t, err
		}
		rest := w.traceTracked(ctx, oftrace.Parse(text))
		table, more = behindGroup(rest.Steps)
		t = oftrace.Trace{
			Steps: append(t.Steps, rest.Steps...), Final: rest.Final, Datapath: rest.Datapath,
			Warnings: append(t.Warnings, rest.Warnings...),
		}
	}
	return t, nil
}

// traceTracked repeats a trace for the tables that evaluate connections, if the trace has passed them: the switch
// does not set the fields of connection tracking there, so that rules about addresses and ports would not match.
func (w *world) traceTracked(ctx context.Context, t oftrace.Trace) oftrace.Trace {
	at := slices.IndexFunc(t.Resumed, func(r oftrace.Resumed) bool { return pipeline.AsksTracker(r.Table) })
	if at < 0 {
		return t
	}
	for range mostResumed {
		from := t.Resumed[at]
		text, err := w.sw.TraceFrom(ctx, from.Table, tracked(from.Packet))
		if err != nil {
			t.Warnings = append(t.Warnings, "rules of policies about addresses and ports were not asked: "+err.Error())
			break
		}
		rest := oftrace.Parse(text)
		t.Steps = append(t.Steps[:from.Before:from.Before], rest.Steps...)
		for i := range rest.Resumed {
			rest.Resumed[i].Before += from.Before
		}
		t.Final, t.Datapath, t.Warnings, t.Resumed, at = rest.Final, rest.Datapath, append(t.Warnings, rest.Warnings...), rest.Resumed, len(rest.Resumed)-1
		if !rest.Lost || at < 0 {
			break
		}
	}
	return t
}

// mostResumed limits how often a packet is followed after the connection tracker: no packet returns from there more
// often.
const mostResumed = 8

// tracked adds to the fields of a packet, as the switch prints them, those that the connection tracker sets for
// the first packet of a connection. The switch does not accept all of its own output, nor under the same names;
// packets from the tunnel have been tracked before.
func tracked(packet string) string {
	var fields, known []string
	protocol := ""
	for field := range strings.SplitSeq(packet, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch {
		case slices.Contains(leftOut, name), slices.ContainsFunc(leftOut, func(all string) bool { return strings.HasSuffix(all, "_") && strings.HasPrefix(name, all) }):
			continue
		case transports[strings.TrimSuffix(name, "6")] != "":
			protocol = strings.TrimSuffix(name, "6")
			known = append(known, "ct_nw_proto="+transports[protocol])
		case name == "icmp":
			known = append(known, "ct_nw_proto=1")
		case name == "icmp6":
			known = append(known, "ct_nw_proto=58")
		case name == "nw_proto", name == "nw_src", name == "nw_dst", name == "ipv6_src", name == "ipv6_dst":
			known = append(known, "ct_"+field)
		case protocol != "" && (name == "tp_src" || name == "tp_dst"):
			known = append(known, "ct_"+name+"="+value)
		}
		fields = append(fields, field)
	}
	return accepted(strings.Join(append(fields, known...), ","))
}

// accepted returns a packet as the switch prints it under the names that the switch accepts: it does not accept all of
// its own output.
func accepted(packet string) string {
	fields := strings.Split(packet, ",")
	protocol := ""
	for i, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		switch base := strings.TrimSuffix(name, "6"); {
		case transports[base] != "":
			protocol = base
		case name == "icmp6":
			protocol = "icmpv6"
		case protocol == "icmpv6" && (name == "icmp_type" || name == "icmp_code"):
			fields[i] = protocol + strings.TrimPrefix(field, "icmp")
		case protocol != "" && (name == "tp_src" || name == "tp_dst"):
			fields[i] = protocol + strings.TrimPrefix(field, "tp")
		case name == "nd_tll" && value == "00:00:00:00:00:00":
			fields[i] = ""
		}
	}
	return strings.Join(slices.DeleteFunc(fields, func(field string) bool { return field == "" }), ",")
}

// leftOut are fields, or prefixes of fields, that the switch does not accept, or that are set again.
var leftOut = []string{"recirc_id", "eth", "tun_", "gtpu_", "ct_nw_", "ct_ipv6_", "ct_tp_"}

// transports are the protocol numbers of protocols with ports.
var transports = map[string]string{"tcp": "6", "udp": "17", "sctp": "132"}

// behindGroup returns the table in which a trace continues that has ended at a group.
func behindGroup(steps []oftrace.Step) (table uint8, more bool) {
	if len(steps) == 0 {
		return 0, false
	}
	for _, action := range steps[len(steps)-1].Actions {
		if number, is := strings.CutPrefix(action, "group:"); is {
			group, err := strconv.ParseUint(number, 10, 32)
			if table, more = pipeline.GroupLeadsTo(uint32(group)); err == nil && more {
				return table, true
			}
		}
	}
	return 0, false
}

// world is the node's state at the time of a query.
type world struct {
	host      string
	tenant    string // of the sender, like vrf
	vrf       uint16
	names     []netip.Addr // name servers of the sender's network
	encap     pipeline.Encap
	vtep      netip.Addr
	peers     map[netip.Addr]string // VTEP -> host
	objects   map[uint64]pipeline.Object
	endpoints map[string]pipeline.Endpoint
	networks  map[string]pipeline.Network
	services  []pipeline.Service
	sw        Switch
	ports     map[uint32]string // OpenFlow number -> owner of the port
	numbers   map[string]uint32
}

func newWorld(in agent.Inspection) *world {
	w := &world{host: in.HostLabel, vtep: in.VTEP, peers: map[netip.Addr]string{},
		objects: make(map[uint64]pipeline.Object, len(in.Objects)), endpoints: map[string]pipeline.Endpoint{},
		networks: map[string]pipeline.Network{}, ports: map[uint32]string{}, numbers: map[string]uint32{}}
	for host, vtep := range in.Peers {
		w.peers[vtep] = host
	}
	for _, object := range in.Objects {
		w.objects[pipeline.Cookie(object.Key())] = object
		switch o := object.(type) {
		case pipeline.Endpoint:
			w.endpoints[o.ID] = o
		case pipeline.Network:
			w.networks[o.ID] = o
		case pipeline.Service:
			w.services = append(w.services, o)
		}
	}
	return w
}

// target is the destination of a packet.
type target struct {
	address  netip.Addr
	endpoint pipeline.Endpoint // endpoint with the address; without an ID there is none
	service  bool              // the address belongs to a service
	port     uint16            // port there, of a packet that was for a service
}

// receiver returns the destination: an endpoint by its id, over IPv4 if both have it, or the owner of an
// address in the sender's tenant.
func (w *world) receiver(from pipeline.Endpoint, text string) (target, error) {
	if to, known := w.endpoints[text]; known {
		switch {
		case from.IPv4.IsValid() && to.IPv4.IsValid():
			return target{address: to.IPv4, endpoint: to}, nil
		case from.IPv6.IsValid() && to.IPv6.IsValid():
			return target{address: to.IPv6, endpoint: to}, nil
		}
		return target{}, fault.New(fault.Invalid, "endpoints %s and %s have no version of IP in common", from.ID, to.ID)
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return target{}, fault.New(fault.NotFound, "node %s: %q is neither an endpoint that is known here nor an address", w.host, text)
	}
	to := target{address: address.Unmap()}
	to.endpoint = w.endpointAt(to.address)
	for _, s := range w.services {
		for _, p := range s.Ports {
			to.service = to.service || s.VRF == from.VRF && p.Address == to.address
		}
	}
	return to, nil
}

// endpointAt returns the endpoint with an address in the sender's routing domain; without an ID there is none.
func (w *world) endpointAt(address netip.Addr) (at pipeline.Endpoint) {
	for _, e := range w.endpoints {
		if e.VRF == w.vrf && (e.IPv4 == address || e.IPv6 == address) {
			at = e
		}
	}
	return at
}

// providers returns the possible receivers of the packet if it is for a service of the sender's tenant.
func (w *world) providers(to target, q Query) (all []string) {
	for _, s := range w.services {
		for _, p := range s.Ports {
			if p.Address != to.address || p.Port != q.Port || p.Protocol != inet.TransportNumber(q.Protocol) || s.VRF != w.vrf || !w.isOwnObject(s) {
				continue
			}
			if p.From&pipeline.FromPods == 0 {
				continue // for others, such as clients outside, with other providers
			}
			for _, provider := range s.Serving(p) {
				all = append(all, provider.String())
			}
		}
	}
	if rest := len(all) - mostProviders; rest > 0 {
		all = append(all[:mostProviders], fmt.Sprintf("%d more", rest))
	}
	return all
}

// mostProviders limits how many providers of a service an answer names.
const mostProviders = 16
