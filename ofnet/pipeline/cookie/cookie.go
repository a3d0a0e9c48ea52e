// Package cookie lays out the 64 bits every flow of ours carries.
//
// A flow in the switch has no room for a name, only for a cookie. Ours answers
// three questions, from the highest bit to the lowest:
//
//	63      56 55      48 47                                             0
//	+---------+----------+-----------------------------------------------+
//	|  owner  |  class   |                  object hash                  |
//	+---------+----------+-----------------------------------------------+
//
//	owner   is this flow ours? Always 0xC0.
//	class   what kind of object asked for it?
//	object  which one? A hash of the object's id. All flows of an object have
//	        one cookie and no other object has it, so that the switch can add
//	        up the object's counters.
//
// With 48 bits, a million objects of a class have one chance in 560 that any
// two of them share a cookie; they would share their counters, nothing else.
//
// The cookie of an object is the same in every run of the agent and on every
// node. Versions before had the number of the run in the second and third
// byte; their flows are recognized by not being wanted, not by the cookie.
package cookie

import "hash/fnv"

// Owner is the top byte of every cookie of ours.
const Owner = 0xC0

// Positions of the parts above the object hash.
const (
	classShift = 48
	ownerShift = 56
)

const (
	ownerMask  uint64 = 0xff << ownerShift
	objectMask uint64 = 1<<classShift - 1
)

// Class is the kind of the object a flow belongs to.
type Class uint8

// Classes. The numbers are on the wire of running switches: append, never reorder.
const (
	Base     Class = iota + 1 // the pipeline itself: misses, guards, shared answers
	Network                   // a network: its tunnel entry and its gateway
	Endpoint                  // an endpoint, local or remote
	Policy                    // a policy rule
	FloodSet                  // the members of a bridged network
	Service                   // a virtual address and its providers
	Outside                   // the way out by the host
	Router                    // the node as one of the external routers
	Route
	NextHop
	TierRule // a rule of a tier
	Epoch    // the present epoch of connections admitted by tiers
	Peer     // another node
	Departed // an endpoint that is gone, until its connections are ended
)

// New makes the cookie of an object's flows.
func New(class Class, object string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(object)) // never fails, as hash.Hash promises
	sum := h.Sum64()
	return Owner<<ownerShift | uint64(class)<<classShift | (sum>>classShift^sum)&objectMask
}

// Ours reports whether a flow with this cookie was written by us, in any version.
func Ours(c uint64) bool { return c&ownerMask == Owner<<ownerShift }

// Learned returns the cookie of the flows that the switch learns from flows of this cookie. It is none of ours:
// only the switch adds them.
func Learned(c uint64) uint64 { return c ^ 1<<ownerShift }

// IsLearned reports whether a flow with this cookie was learned from one of ours.
func IsLearned(c uint64) bool { return Ours(Learned(c)) }

// ClassOf returns the kind of object a flow belongs to.
func ClassOf(c uint64) Class { return Class(c >> classShift) }
