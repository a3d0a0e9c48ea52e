// Package cookie lays out the 64 bits every flow of ours carries.
//
// A flow in the switch has no room for a name, only for a cookie. Ours answers
// four questions, from the highest bit to the lowest:
//
//	63      56 55            40 39      32 31                            0
//	+---------+----------------+----------+------------------------------+
//	|  owner  |     round      |  class   |         object hash          |
//	+---------+----------------+----------+------------------------------+
//
//	owner   is this flow ours? Always 0xC0, so that flows of others stay alone.
//	round   which run of the agent wrote it? A restarted agent writes a new
//	        round beside the old one and then sweeps what still has the old.
//	class   what kind of object asked for it?
//	object  which one? A hash of the object's id: enough to find the flows of
//	        an object and to add up its counters, never used as an identity.
//
// The pipeline leaves the round zero; the driver stamps it just before it
// writes. A cookie without its round is therefore the same in every run.
package cookie

import "hash/fnv"

// Owner is the top byte of every cookie of ours.
const Owner = 0xC0

// Positions of the parts above the object hash.
const (
	classShift = 32
	roundShift = 40
	ownerShift = 56
)

// Masks select one part of a cookie; they are combined with | .
const (
	OwnerMask  uint64 = 0xff << ownerShift
	RoundMask  uint64 = 0xffff << roundShift
	ClassMask  uint64 = 0xff << classShift
	ObjectMask uint64 = 1<<classShift - 1
)

// Class is the kind of the object a flow belongs to.
type Class uint8

// Classes. The numbers are on the wire of running switches: append, never reorder.
const (
	Base     Class = iota + 1 // the pipeline itself: misses, guards, shared answers
	Network                   // a network: its tunnel entry and its gateway
	Endpoint                  // an endpoint, local or remote
	Policy                    // a policy rule
	Service                   // a service address
	DNS                       // the name server's redirection
	Host                      // access to and from the node itself
	BGP                       // a learned route
)

// names are used by String.
var names = [...]string{
	Base: "base", Network: "network", Endpoint: "endpoint", Policy: "policy",
	Service: "service", DNS: "dns", Host: "host", BGP: "bgp",
}

// String returns the lower-case name of the class.
func (c Class) String() string {
	if c == 0 || int(c) >= len(names) {
		return "unknown"
	}
	return names[c]
}

// New makes the cookie of an object's flows, of round zero.
func New(class Class, object string) uint64 {
	h := fnv.New32a()
	h.Write([]byte(object)) // never fails, as hash.Hash promises
	return Owner<<ownerShift | uint64(class)<<classShift | uint64(h.Sum32())
}

// WithRound returns the cookie stamped with a round.
func WithRound(c uint64, round uint16) uint64 {
	return c&^RoundMask | uint64(round)<<roundShift
}

// WithoutRound returns what stays the same from round to round.
func WithoutRound(c uint64) uint64 { return c &^ RoundMask }

// Ours tells whether a flow with this cookie was written by us, in any round.
func Ours(c uint64) bool { return c&OwnerMask == Owner<<ownerShift }

// RoundOf returns the round a flow was written in.
func RoundOf(c uint64) uint16 { return uint16(c & RoundMask >> roundShift) }

// ClassOf returns the kind of object a flow belongs to.
func ClassOf(c uint64) Class { return Class(c & ClassMask >> classShift) }

// ObjectOf returns the hash of the object a flow belongs to.
func ObjectOf(c uint64) uint32 { return uint32(c & ObjectMask) }

// AllOurs selects every flow of ours: cookie and mask of a request to the switch.
func AllOurs() (value, mask uint64) { return Owner << ownerShift, OwnerMask }

// AllOfRound selects every flow of ours written in a round.
func AllOfRound(round uint16) (value, mask uint64) {
	return WithRound(Owner<<ownerShift, round), OwnerMask | RoundMask
}

// AllOfObject selects an object's flows in every round; c is any cookie of it.
func AllOfObject(c uint64) (value, mask uint64) { return WithoutRound(c), ^RoundMask }
