package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// How a group spreads connections over its buckets.
//
// Open vSwitch assigns the values of a hash over the packet's addresses and ports to the buckets of a
// select group. The datapath computes the hash and caches one flow for each value, so that new
// connections need no upcall. The number of values is the lowest power of two, of at least 16, with which the
// bucket of the smallest weight has one. So of six equal buckets, two would have 2 of 16 values and the others 3.

// hashValues is how many values Open vSwitch uses at most in a group without selection method
// (group_set_selection_method in its ofproto-dpif.c). A group that needs more has an upcall for each connection.
const hashValues = 64

// fewestValues is how many it uses at least.
const fewestValues = 16

// evenly returns buckets of equal shares, one for each choice. If 16 values cannot be divided
// evenly, the first choice gets two buckets, one with a weight of 1 in 64, by which Open vSwitch uses 64
// values. Of more than 32 choices some have two values and others one, and more than 64
// choices cost an upcall for each connection.
func evenly(choices [][]openflow.Action) (buckets []openflow.Bucket) {
	weight := uint16(1)
	if n := len(choices); n > 0 && fewestValues%n != 0 && hashValues/n > 1 {
		weight = uint16(hashValues / n)
		buckets = append(buckets, openflow.Bucket{Weight: 1, Actions: choices[0]}, openflow.Bucket{Weight: weight - 1, Actions: choices[0]})
		choices = choices[1:]
	}
	for _, actions := range choices {
		buckets = append(buckets, openflow.Bucket{Weight: weight, Actions: actions})
	}
	return buckets
}

// spreadUDP makes the hash of a group depend on the client's UDP port. Open vSwitch hashes the addresses, and
// ports of TCP only. So six bits of the port, enough for 64 values, are copied into the destination address, which
// the bucket overwrites. The lowest bit is not used: Linux prefers even ports.
func spreadUDP(service netip.Addr) openflow.Action {
	return openflow.Move{Src: openflow.FieldUDPSrc, SrcOfs: 1, Dst: familyOf(service).dstField, Bits: 6}
}
