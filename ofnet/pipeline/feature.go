package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// feature is one idea of the pipeline. It says which flows it needs from the
// start and which for an object; the pipeline asks every feature about every
// object.
type feature interface {
	base() []openflow.Flow
	network(n Network) []openflow.Flow
	endpoint(e placed) []openflow.Flow
	rule(r Rule) []openflow.Flow
}

// silent is embedded by features that have nothing to say about some objects.
type silent struct{}

func (silent) base() []openflow.Flow           { return nil }
func (silent) network(Network) []openflow.Flow { return nil }
func (silent) endpoint(placed) []openflow.Flow { return nil }
func (silent) rule(Rule) []openflow.Flow       { return nil }

// placed is an endpoint together with the way to it.
type placed struct {
	Endpoint
	port uint32 // 0: on another node, behind Endpoint.VTEP
}

func (e placed) local() bool { return e.port != 0 }

// draft is a flow that still lacks its end. Written out it reads as a
// sentence: at(table, priority, match...).do(actions...).goTo(table).
type draft openflow.Flow

func at(table uint8, priority uint16, match ...openflow.FieldMatch) draft {
	return draft{Table: table, Priority: priority, Match: match}
}

// do adds actions.
func (d draft) do(actions ...openflow.Action) draft {
	d.Actions = append(d.Actions, actions...)
	return d
}

// goTo lets the packet go on in a later table.
func (d draft) goTo(table uint8) openflow.Flow {
	d.Goto = table
	return openflow.Flow(d)
}

// output sends the packet away.
func (d draft) output(port uint32) openflow.Flow {
	return openflow.Flow(d.do(openflow.Output{Port: port}))
}

// drop ends the packet's way; its flow counts it.
func (d draft) drop() openflow.Flow { return openflow.Flow(d) }

// set writes a whole field.
func set(to openflow.FieldMatch) openflow.Action { return openflow.SetField{FieldMatch: to} }

// misses gives every table its last word, as tables.go declares it.
type misses struct{ silent }

func (misses) base() []openflow.Flow {
	var flows []openflow.Flow
	for _, t := range Tables() {
		flows = append(flows, at(t.ID, priorityMiss).goTo(t.Miss))
	}
	return flows
}
