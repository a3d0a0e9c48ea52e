package programmer

import (
	"encoding/binary"
	"fmt"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The three kinds of items in a switch. There are hundreds of thousands of flows, so they are stored packed:
// the place is the key of the flow, the item its effect.

// flowKind unites clauses of conjunctions; between rules the pipeline decides, so that the result does not
// depend on which came first; otherwise the last one is in force, as with an address that has moved.
func flowKind() kind[string] {
	return kind[string]{
		same:   sameEffect,
		alike:  func(a, b string) bool { return sameEffect(withCookieOf(a, b), b) || isClause(a) && isClause(b) },
		unites: isClause,
		choose: chooseFlow,
	}
}

// sameEffect compares bytes, and if they differ their meaning.
func sameEffect(a, b string) bool { return a == b || flowOf(a).SameEffect(flowOf(b)) }

func isClause(effect string) bool { return pipeline.IsClause(flowOf(effect)) }

// flowOf returns a flow with an effect, at no particular place.
func flowOf(effect string) openflow.Flow {
	return openflow.PackedFlow{Key: "\x00\x00\x00", Effect: effect}.Flow()
}

// withCookieOf returns the effect a under the cookie of b.
func withCookieOf(a, b string) string {
	cookie, _ := cookieOf(b)
	_, rest := cookieOf(a)
	return cookie + rest
}

// cookieOf splits the cookie from an effect: its first 8 bytes.
func cookieOf(effect string) (cookie, rest string) { return effect[:8], effect[8:] }

// chooseFlow unites flows of a place, or prefers one of them by their contents and owners, not by their order:
// every node chooses the same, also after a restart. Of two endpoints, or two services, with one address the
// one with the lesser id has it.
func chooseFlow(place string, claims []claim[string]) claim[string] {
	all := unite(place, claims)
	best := all[len(all)-1]
	for _, c := range all[:len(all)-1] {
		if isRule(best.owner) && pipeline.Preferred(flowOf(c.thing), flowOf(best.thing)) ||
			hasAddress(best.owner) && c.owner.Kind == best.owner.Kind && c.owner.ID < best.owner.ID {
			best = c
		}
	}
	return best
}

func flowAt(place string, c claim[string]) openflow.Flow {
	return openflow.PackedFlow{Key: place, Effect: c.thing}.Flow()
}

// maxClauses is how many clauses a flow can have: with 16 bytes each, and its other parts, it has to
// fit into a message of 65535 bytes.
const maxClauses = 4000

// unite makes one claim, which comes last, of all that can be united. Of too many clauses those of the
// conjunctions with the highest numbers are omitted, which then match nothing.
func unite(place string, claims []claim[string]) (all []claim[string]) {
	if !anyClause(claims) {
		return claims
	}
	var whole openflow.Flow
	var united claim[string]
	for _, c := range claims {
		flow := flowAt(place, c)
		if !pipeline.IsClause(flow) {
			all = append(all, c)
			continue
		}
		if united.thing == "" || flow.Cookie < whole.Cookie {
			united.owner, whole.Cookie = c.owner, flow.Cookie
		}
		if united.thing == "" {
			whole = flow
		} else {
			whole.Actions = append(whole.Actions, flow.Actions...)
		}
		united.thing = c.thing
	}
	if united.thing == "" {
		return all
	}
	whole, _ = pipeline.Merge(whole, whole) // puts the clauses in order
	whole.Actions = whole.Actions[:min(len(whole.Actions), maxClauses)]
	if effect, err := whole.Effect(); err == nil { // as of each of its parts
		united.thing = effect
	}
	return append(all, united)
}

// anyClause reports whether there are clauses among claims. Many services have the same flow for a pod's
// answers, each under its own cookie, so the result for one effect holds for the next.
func anyClause(claims []claim[string]) bool {
	known := ""
	for _, c := range claims {
		if _, effect := cookieOf(c.thing); effect != known {
			if isClause(c.thing) {
				return true
			}
			known = effect
		}
	}
	return false
}

// isRule reports whether several objects of a kind may want flows for the same packets.
func isRule(k pipeline.Key) bool {
	return k.Kind == pipeline.KindRule || k.Kind == pipeline.KindTierRule
}

// hasAddress reports whether objects of a kind have addresses of their own.
func hasAddress(k pipeline.Key) bool {
	return k.Kind == pipeline.KindEndpoint || k.Kind == pipeline.KindService
}

func groupKind() kind[openflow.Group] {
	return kind[openflow.Group]{same: openflow.Group.Equal, alike: openflow.Group.Equal, choose: uniteGroups}
}

func meterKind() kind[openflow.Meter] {
	return kind[openflow.Meter]{same: openflow.Meter.Equal, alike: openflow.Meter.Equal, choose: lastClaim[openflow.Meter]}
}

func lastClaim[T any](_ string, claims []claim[T]) claim[T] { return claims[len(claims)-1] }

// numbered returns the place of a group or meter.
func numbered(id uint32) string { return string(binary.BigEndian.AppendUint32(nil, id)) }

// packed is what an object wants, as stored in the books.
type packed struct {
	flows  []entry[string]
	groups []entry[openflow.Group]
	meters []entry[openflow.Meter]
	learns []uint64 // cookies of the flows that the switch learns for it
}

// pack packs what an object wants. A flow that cannot be expressed is an error.
func pack(w pipeline.Wants) (packed, error) {
	p := packed{flows: make([]entry[string], 0, len(w.Flows))}
	for _, f := range w.Flows {
		flow, err := openflow.Pack(f)
		if err != nil {
			return packed{}, err
		}
		p.flows = append(p.flows, entry[string]{flow.Key, flow.Effect})
		p.learns = append(p.learns, pipeline.Learns(f)...)
	}
	for _, g := range w.Groups {
		p.groups = append(p.groups, entry[openflow.Group]{numbered(g.ID), g})
	}
	for _, m := range w.Meters {
		p.meters = append(p.meters, entry[openflow.Meter]{numbered(m.ID), m})
	}
	return p, nil
}

// describePlace returns a flow's match in words.
func describePlace(place string) string {
	nothing, err := openflow.Flow{}.Effect()
	if err != nil {
		return err.Error()
	}
	flow := openflow.PackedFlow{Key: place, Effect: nothing}.Flow()
	return fmt.Sprintf("table=%d priority=%d %s", flow.Table, flow.Priority, flow.Match)
}
