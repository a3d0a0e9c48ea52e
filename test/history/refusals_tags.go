package history

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// The causes in this file are about tags: which a network may have had during a call, and which were in the range.

// tagKind is a kind of tag: networks with the encapsulation have it in a member; the pool's record has the range.
type tagKind struct{ encap, member, pool, ranged string }

var (
	vlanTags  = tagKind{"vlan", "pktTag", "auto-vlan", "vlans"}
	vxlanTags = tagKind{"vxlan", "extPktTag", "auto-vxlan", "vxlans"}
)

// heldTags returns the tags that may have been in use during a call. Groups have those of their networks, or in a
// fabric their own.
func (e *Evidence) heldTags(c *Call, kind tagKind) map[int]bool {
	held := map[int]bool{}
	for _, key := range append(e.log.Keys(networkPrefix), e.log.Keys(groupPrefix)...) {
		for _, d := range e.documents(c, key) {
			if d["pktTagType"] == kind.encap {
				held[number(d[kind.member])] = true
			}
		}
	}
	return held
}

// lastingTags returns the tags that were in the range during the whole call.
func (e *Evidence) lastingTags(c *Call, kind tagKind) map[int]bool {
	lasting := map[int]bool{}
	documents := e.documents(c, statePrefix+kind.pool+"/global")
	for i, d := range documents {
		within := map[int]bool{}
		for index, set := range parseBits(d[kind.ranged]) {
			if tag := index + number(d["FreeVXLANsStart"]); set && (i == 0 || lasting[tag]) {
				within[tag] = true
			}
		}
		lasting = within
	}
	return lasting
}

// tagTaken: the tag requested for a network may have been in use.
func tagTaken(kind tagKind) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		tag := c.Object.(*contivmodel.Network).PktTag
		return e.fleeting(c, ofNetwork) > 0 || !e.lastingTags(c, kind)[tag] || e.heldTags(c, kind)[tag]
	}
}

// tagsExhausted: every tag may have been taken at some moment.
func tagsExhausted(kind tagKind) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		free := e.lastingTags(c, kind)
		for tag := range e.heldTags(c, kind) {
			delete(free, tag)
		}
		return len(free) <= e.fleeting(c, ofNetwork)
	}
}

// tagsOutside: a network may have had a tag outside the requested range. The evidence is that networks existed,
// whatever their tags.
func tagsOutside(e *Evidence, c *Call) bool {
	wanted := c.Object.(*contivmodel.Global)
	encap, text := "vxlan", wanted.Vxlans
	if strings.Contains(c.Message, "vlan range") {
		encap, text = "vlan", wanted.Vlans
	}
	low, high := tagRange(text)
	for _, key := range e.log.Keys(networkPrefix) {
		for _, d := range e.documents(c, key) {
			tag := number(d["pktTag"])
			if encap == "vxlan" {
				tag = number(d["extPktTag"])
			}
			if d["pktTagType"] == encap && (tag < low || tag > high) {
				return true
			}
		}
	}
	return e.fleeting(c, ofNetwork) > 0
}

func ofNetwork(c *Call) bool { return c.Type == "network" }
