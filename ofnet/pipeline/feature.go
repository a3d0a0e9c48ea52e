package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// A feature is one concern of the pipeline. It has those of the following methods that it has flows for; the
// pipeline calls every feature for every object and adds up what they want.
type (
	// baseFeature wants something whatever objects there are.
	baseFeature interface{ base(w *Wants) }
	// networkFeature wants something for each network.
	networkFeature interface{ network(w *Wants, n Network) }
	// endpointFeature wants something for each endpoint that can be reached.
	endpointFeature interface{ endpoint(w *Wants, e placed) }
	// floodFeature wants something for each flood set.
	floodFeature interface{ floodSet(w *Wants, s FloodSet) }
	// serviceFeature wants something for each service.
	serviceFeature interface{ service(w *Wants, s Service) }
	// outsideFeature wants something for the way out, by its port.
	outsideFeature interface {
		outside(w *Wants, o Outside, port uint32)
	}
	// routerFeature wants something for the node as a router, by its port, for each
	// route, for each router that routes lead to and for those that are equally good.
	routerFeature interface {
		router(w *Wants, o Router, port uint32)
		route(w *Wants, o Route)
		nextHop(w *Wants, o NextHop)
		hopGroup(w *Wants, o HopGroup)
	}
	// ruleFeature wants something for each rule.
	ruleFeature interface{ rule(w *Wants, r Rule) }
	// tierFeature wants something for each rule of a tier.
	tierFeature interface{ tierRule(w *Wants, r TierRule) }
	// peerFeature wants something for each other node.
	peerFeature interface{ peer(w *Wants, p Peer) }
	// epochFeature wants something for the epoch.
	epochFeature interface{ epoch(w *Wants, e Epoch) }
)

// placed is an endpoint together with the way to it.
type placed struct {
	Endpoint
	port uint32 // 0: on another node, behind Endpoint.VTEP
}

func (e placed) local() bool { return e.port != 0 }

// behindRouter reports whether an external router is on the way.
func (e placed) behindRouter() bool { return !e.local() && e.Encap == VLAN && !e.Mode.Bridged() }

// Wants is what must be in the switch for an object.
type Wants struct {
	Flows  []openflow.Flow
	Groups []openflow.Group
	Meters []openflow.Meter
}

func (w *Wants) flow(flows ...openflow.Flow) { w.Flows = append(w.Flows, flows...) }

// flowBuilder is a flow that still lacks its end. It is written as: at(table, priority,
// match...).do(actions...).goTo(table).
type flowBuilder openflow.Flow

func at(table uint8, priority uint16, match ...openflow.FieldMatch) flowBuilder {
	return flowBuilder{Table: table, Priority: priority, Match: united(match)}
}

// do adds actions.
func (b flowBuilder) do(actions ...openflow.Action) flowBuilder {
	b.Actions = append(b.Actions, actions...)
	return b
}

// metered drops what exceeds the rate of a meter, before anything else; 0: none.
func (b flowBuilder) metered(meter uint32) flowBuilder {
	b.Meter = meter
	return b
}

// reported makes the switch report when the flow is deleted.
func (b flowBuilder) reported() flowBuilder {
	b.Flags |= openflow.FlowSendRemoved
	return b
}

// goTo continues the packet in a later table.
func (b flowBuilder) goTo(table uint8) openflow.Flow {
	b.Goto = table
	return openflow.Flow(b)
}

// drop drops the packet for a reason. The flow counts it for its object, table DROP for the reason.
func (b flowBuilder) drop(why Reason) openflow.Flow {
	return b.do(regReason.set(uint32(why))).goOnIn(tableDrop)
}

// goOnIn continues the packet in a later or earlier table.
func (b flowBuilder) goOnIn(table uint8) openflow.Flow {
	if b.Table > table {
		return b.backTo(table)
	}
	return b.goTo(table)
}

// backTo continues the packet in an earlier table.
func (b flowBuilder) backTo(table uint8) openflow.Flow {
	return b.do(openflow.Resubmit{Table: table}).end()
}

// end ends flows that output the packet, or drop it without a reason.
func (b flowBuilder) end() openflow.Flow { return openflow.Flow(b) }

// set writes a whole field.
func set(to openflow.FieldMatch) openflow.Action { return openflow.SetField{FieldMatch: to} }

// tableMisses adds the miss flow of every table, as tables.go declares it.
type tableMisses struct{}

func (tableMisses) base(w *Wants) {
	for _, t := range Tables() {
		switch miss := at(t.ID, priorityMiss); {
		case t.ID == tableDrop:
			w.flow(miss.end())
		case t.Miss == t.ID: // nothing passes it
		case t.Miss == tableDrop:
			w.flow(miss.drop(t.Why))
		default:
			w.flow(miss.goOnIn(t.Miss))
		}
	}
}
