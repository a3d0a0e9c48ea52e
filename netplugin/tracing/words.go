package tracing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/oftrace"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// hop describes a trace.
func (w *world) hop(t oftrace.Trace, to target) hops.Hop {
	h := hops.Hop{Note: strings.Join(t.Warnings, "; ")}
	var left outcome
	for _, s := range stepsOf(t) {
		if reason, drops := pipeline.DropReasonOf(s.Table, s.Match); drops {
			h.Reason, h.Means = reason.Name, reason.Does
			if last := len(h.Steps) - 1; last >= 0 { // the flow says so
				h.Table, h.Of = h.Steps[last].Table, h.Steps[last].Of
			}
			continue
		}
		step := hops.Step{Table: tableName(s.Table), Match: s.Match, Does: w.describeActions(s.Actions)}
		if object, known := w.objects[s.Cookie]; known {
			if step.Of = w.owner(object); !w.isOwnObject(object) {
				step.Match = "" // addresses, ports and groups of another tenant
			}
			if r, is := object.(pipeline.Rule); is && pipeline.EndsJudgement(s.Table, r) {
				step.Does = "final: no policy is asked, " + step.Does
			}
			left.flooded = left.flooded || object.Key().Kind == pipeline.KindFloodSet
		}
		h.Steps = append(h.Steps, step)
		left.note(s.Actions)
	}
	to = w.translated(t.Final, to)
	switch sent := t.Datapath != "drop"; {
	case sent && left.flooded:
		h.Exit, h.Note = hops.Unknown, strings.Join(append(t.Warnings, "everybody in the network gets it"), "; ")
	case sent && left.port != 0:
		w.describeOutput(&h, left.port, to)
	case sent && left.back:
		h.Exit = hops.Answered
	case h.Reason == "" && left.unknown:
		h.Exit = hops.Unknown
	default:
		h.Exit = hops.Dropped
		return h
	}
	h.Reason, h.Means, h.Table, h.Of = "", "", "", "" // of a copy
	return h
}

// translated returns the final destination of a packet, as the switch prints its fields: for a packet to a
// service, the provider that the switch remembers for its sender.
func (w *world) translated(final string, to target) target {
	var address netip.Addr
	var port uint64
	for field := range strings.SplitSeq(final, ",") {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "nw_dst", "ipv6_dst":
			address, _ = netip.ParseAddr(value)
		case "tp_dst":
			port, _ = strconv.ParseUint(value, 10, 16)
		}
	}
	if !to.service || !address.IsValid() || address == to.address {
		return to
	}
	return target{address: address, endpoint: w.endpointAt(address), port: uint16(port)}
}

// stepsOf returns the tables that a packet of usual size passes. The trace also has the part for an oversized
// packet, which comes first. If a lookup in a table has no answer, the next steps belong to the flow with the
// lookup.
func stepsOf(t oftrace.Trace) (steps []oftrace.Step) {
	tooBig := false
	for _, s := range t.Steps {
		name := tableName(s.Table)
		switch last := len(steps) - 1; {
		case pipeline.IsTooBig(s.Table, s.Match):
			tooBig = true
		case tooBig && name != "OUTPUT":
		case s.Missed && last >= 0:
			steps[last].Actions = append(slices.Clone(steps[last].Actions), s.Actions...)
		default:
			tooBig, steps = false, append(steps, s)
		}
	}
	return steps
}

// outcome is the result of the flows' output actions.
type outcome struct {
	port          uint32 // output port; 0: none
	back, unknown bool   // output to the ingress port; a group, or the agent, decides
	flooded       bool   // to all members of a network: the last port is not that of the receiver
}

func (o *outcome) note(actions []string) {
	for _, action := range actions {
		name, value, _ := strings.Cut(action, ":")
		switch {
		case name == "output":
			if port, err := strconv.ParseUint(value, 10, 32); err == nil {
				o.port = uint32(port)
			}
		case name == "IN_PORT":
			o.back = true
		case name == "group" && !alwaysContinues(value), strings.HasPrefix(action, "controller("):
			o.unknown = true
		}
	}
}

// describeOutput describes the output to a port.
func (w *world) describeOutput(h *hops.Hop, port uint32, to target) {
	owner, ours := w.ports[port]
	switch {
	case port == w.sw.Trunk() && w.encap == pipeline.VLAN:
		h.Exit = hops.Uplink
	case port == w.sw.Trunk():
		h.Exit, h.Next = hops.Tunnel, w.peers[to.endpoint.VTEP]
		h.To = "node " + cmp.Or(h.Next, to.endpoint.VTEP.String())
		if to.port != 0 {
			h.NextTo, h.NextPort = to.address.String(), int(to.port)
		}
	case owner == agent.OutsideID:
		h.Exit = hops.Host
	case ours && w.endpoints[owner].Tenant != w.tenant:
		h.Exit, h.To = hops.Delivered, "endpoint"
	case ours:
		h.Exit, h.To = hops.Delivered, "endpoint "+owner
	case slices.Contains(w.names, to.address):
		h.Exit, h.To = hops.Delivered, "the node's name server"
	default:
		h.Exit, h.To = hops.Delivered, fmt.Sprintf("port %d", port)
	}
}

func tableName(id uint8) string {
	if table, known := pipeline.TableNamed(id); known {
		return table.Name
	}
	return strconv.Itoa(int(id))
}

// owner returns the owner of a flow: of an object in another tenant only its kind.
func (w *world) owner(object pipeline.Object) string {
	key := object.Key()
	if key.Kind == pipeline.KindEpoch || !w.isOwnObject(object) {
		return string(key.Kind)
	}
	if key.Kind == pipeline.KindTierRule { // the number in the record is not that of a rule of the policy
		key.ID, _, _ = strings.Cut(key.ID, "#")
	}
	return string(key.Kind) + " " + key.ID
}

// isOwnObject reports whether an object belongs to the sender's tenant, or to none.
func (w *world) isOwnObject(object pipeline.Object) bool {
	switch o := object.(type) {
	case pipeline.Endpoint:
		return o.Tenant == w.tenant
	case pipeline.Network:
		return o.Tenant == w.tenant
	case pipeline.FloodSet:
		return w.networks[o.Network].Tenant == w.tenant
	case pipeline.Rule:
		tenant, _, _ := strings.Cut(o.ID, ":")
		return tenant == w.tenant
	case pipeline.Service: // the id of a Kubernetes service does not have its tenant, but only routed VLANs share a VRF
		return o.VRF == w.vrf && o.VRF != pipeline.SharedVRF || strings.HasSuffix(o.ID, ":"+w.tenant)
	case pipeline.TierRule:
		return w.isAboutOwnEndpoint(o)
	}
	return true
}

// isAboutOwnEndpoint reports whether the subject of a rule is an endpoint of the sender's tenant.
func (w *world) isAboutOwnEndpoint(r pipeline.TierRule) bool {
	for _, e := range w.endpoints {
		if e.Tenant == w.tenant && slices.Contains(r.Subjects, e.Class) {
			return true
		}
	}
	return false
}

// describeActions describes in words what a flow does; writes to registers are left out.
func (w *world) describeActions(actions []string) string {
	var words []string
	for _, action := range actions {
		name, value, _ := strings.Cut(action, ":")
		switch {
		case name == "meter":
			words = append(words, "passes meter "+value)
			if number, err := strconv.ParseUint(value, 10, 32); err == nil && pipeline.SlowsDown(uint32(number)) {
				words = append(words, "as the port is slowed down")
			}
		case name == "output":
			words = append(words, "leaves by port "+value)
		case name == "IN_PORT":
			words = append(words, "goes back")
		case name == "group":
			if !alwaysContinues(value) {
				words = append(words, "group "+value+" decides")
			}
		case strings.HasPrefix(action, "controller("):
			words = append(words, "copy to the agent")
		case strings.HasPrefix(action, "ct("):
			words = append(words, "asks the connection tracker")
		case name == "goto_table":
			words = append(words, tableOfResubmit(value)...)
		case strings.HasPrefix(action, "resubmit(,"):
			words = append(words, tableOfResubmit(strings.TrimSuffix(strings.TrimPrefix(action, "resubmit(,"), ")"))...)
		}
	}
	return strings.Join(words, ", ")
}

// alwaysContinues reports whether all packets continue in one table after a group.
func alwaysContinues(group string) bool {
	number, err := strconv.ParseUint(group, 10, 32)
	_, always := pipeline.GroupLeadsTo(uint32(number))
	return err == nil && always
}

// tableOfResubmit names the table of a resubmit, unless packets return from there.
func tableOfResubmit(number string) []string {
	id, err := strconv.ParseUint(number, 10, 8)
	if err != nil || pipeline.IsOnlyAsked(uint8(id)) {
		return nil
	}
	return []string{"to " + tableName(uint8(id))}
}
