package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// How a group spreads connections over its buckets.
//
// Open vSwitch gives each bucket of a select group some of the values that a hash of the
// packet's addresses and ports may have. The datapath computes the hash and keeps one flow for
// each value, so that ovs-vswitchd is not asked for a connection. It takes as few values as
// are enough for the bucket of the smallest weight to have one, but at least 16: of six equal
// buckets, two would have 2 of 16 and the others 3.

// hashValues is how many values of the hash Open vSwitch takes at most in a group that names no
// method of selection. Where it would need more, it asks ovs-vswitchd for each connection.
const hashValues = 64

// fewestValues is how many it takes at least.
const fewestValues = 16

// evenly returns buckets of equal shares, with one choice each. Where 16 values of the hash
// cannot be dealt out evenly, 64 of them are: the first choice has two buckets, one of them with
// a 64th only. Of more than 32 choices some have two values and others one, and for connections
// to more than 64 ovs-vswitchd is asked.
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

// spreadUDP makes the hash of a group depend on the client's UDP port. Open
// vSwitch hashes addresses, and ports for TCP only, so some bits of the port go
// into the address of the service; the bucket writes it anew. Six bits are enough, as
// there are not more than 64 values of the hash. The lowest is left out: Linux
// prefers even ports.
func spreadUDP(service netip.Addr) openflow.Action {
	return openflow.Move{Src: openflow.FieldUDPSrc, SrcOfs: 1, Dst: familyOf(service).dstField, Bits: 6}
}
