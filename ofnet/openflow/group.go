package openflow

import (
	"fmt"
	"time"
)

// Group is a set of buckets of actions, of which Type says which are done.
type Group struct {
	ID      uint32
	Type    GroupType
	Buckets []Bucket
	Err     error // of a group in the switch: what of its buckets is not understood
}

// GroupType says which buckets of a group are done.
type GroupType uint8

// Types of groups.
const (
	GroupAll          GroupType = iota // every one, on a copy each
	GroupSelect                        // one, by hash and weight
	GroupIndirect                      // the only one
	GroupFastFailover                  // the first that is alive
)

// Reserved group ids.
const (
	GroupMax    uint32 = 0xffffff00
	GroupIDAll  uint32 = 0xfffffffc // every group, in deletions
	GroupAny    uint32 = 0xffffffff
	watchNobody uint32 = 0xffffffff
)

// Bucket is an alternative of a group.
type Bucket struct {
	Weight     uint16 // select groups; 0: never chosen
	WatchPort  uint32 // fast failover: alive while this port is; 0: none
	WatchGroup uint32 // likewise
	Actions    []Action
}

// GroupStats are the counters of a group.
type GroupStats struct {
	ID             uint32
	References     uint32
	Packets, Bytes uint64
	Duration       time.Duration
	Buckets        []BucketStats
}

// BucketStats are the counters of a bucket.
type BucketStats struct{ Packets, Bytes uint64 }

// GroupCommand says what a GroupMod does.
type GroupCommand uint16

// Commands. Deleting a group deletes the flows that use it.
const (
	GroupAdd GroupCommand = iota
	GroupModify
	GroupDelete
)

// GroupMod changes the group table.
type GroupMod struct {
	Command GroupCommand
	Group   Group
}

// String names the message in errors.
func (m GroupMod) String() string {
	return fmt.Sprintf("group %s: %s", name(m.Command, groupCommands), m.Group)
}

var groupCommands = []string{"add", "modify", "delete"}
