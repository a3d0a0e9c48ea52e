package openflow

import (
	"fmt"
	"slices"
	"strings"
)

// Group is a list of buckets of actions; Type decides which buckets are executed.
type Group struct {
	ID      uint32
	Type    GroupType
	Buckets []Bucket
	Err     error // set on groups read from the switch: the part of the buckets that could not be decoded
}

// GroupType decides which buckets of a group are executed.
type GroupType uint8

// Types of groups.
const (
	GroupAll          GroupType = iota // all, each on a copy of the packet
	GroupSelect                        // one, by hash and weight
	GroupIndirect                      // the only one
	GroupFastFailover                  // the first that is live
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
	WatchPort  uint32 // fast failover: live while this port is live; 0: none
	WatchGroup uint32 // likewise
	Actions    []Action
}

// GroupRoom is the maximum size in bytes of the buckets of a group that is changed in a bundle: the
// length of a message has 16 bits, and the headers of the bundle and the group take 24 and 16 bytes.
const GroupRoom = 0xffff - 24 - 16

// Size returns the encoded size of the bucket in bytes.
func (k Bucket) Size() int {
	var e encoder
	e.bucket(k, GroupSelect)
	return len(e.b)
}

// GroupCommand is the command of a GroupMod.
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

// Equal reports whether two groups are the same to a switch. A group that could not be decoded equals
// no other.
func (g Group) Equal(h Group) bool {
	return g.Err == nil && h.Err == nil && g.ID == h.ID && g.Type == h.Type && slices.EqualFunc(g.Buckets, h.Buckets, func(a, b Bucket) bool {
		return (a.Weight == b.Weight || g.Type != GroupSelect) && a.WatchPort == b.WatchPort && a.WatchGroup == b.WatchGroup &&
			equalActions(a.Actions, b.Actions)
	})
}

// groupTypes are the names of the types of groups.
var groupTypes = []string{"all", "select", "indirect", "ff"}

// String prints the group as ovs-ofctl dump-groups does.
func (g Group) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group_id=%d,type=%s", g.ID, name(g.Type, groupTypes))
	for _, bucket := range g.Buckets {
		b.WriteString(",bucket=" + bucket.text(g.Type))
	}
	return b.String()
}

func (k Bucket) text(t GroupType) string {
	args := []string{
		option(t == GroupSelect && k.Weight != 1, "weight:%d", k.Weight),
		option(k.WatchPort != 0, "watch_port:%s", portName(k.WatchPort)),
		option(k.WatchGroup != 0, "watch_group:%d", k.WatchGroup),
		"actions=" + actionList(k.Actions),
	}
	text := call("", args...)
	return text[1 : len(text)-1]
}

func (m GroupMod) messageType() Type { return TypeGroupMod }

func (m GroupMod) encodeBody(e *encoder) {
	e.u16(uint16(m.Command))
	e.u8(uint8(m.Group.Type))
	e.zeros(1)
	e.u32(m.Group.ID)
	for _, k := range m.Group.Buckets {
		e.bucket(k, m.Group.Type)
	}
}

// bucket appends a bucket. Open vSwitch accepts a weight only in select groups.
func (e *encoder) bucket(k Bucket, t GroupType) {
	start := len(e.b)
	e.u16(0)
	if t == GroupSelect {
		e.u16(k.Weight)
	} else {
		e.u16(0)
	}
	e.u32(orAny(k.WatchPort))
	e.u32(orAny(k.WatchGroup))
	e.zeros(4)
	e.actions(k.Actions)
	e.length(start, start)
}

// buckets reads buckets to the end.
func (d *decoder) buckets() []Bucket {
	var list []Bucket
	for d.more() {
		part := d.element(0)
		part.skip(2)
		k := Bucket{Weight: part.u16(), WatchPort: orZero(part.u32()), WatchGroup: orZero(part.u32())}
		part.skip(4)
		k.Actions = part.actions(0)
		d.join(part, "bucket")
		list = append(list, k)
	}
	return list
}

// groupMod reads the body of a group-mod.
func (d *decoder) groupMod() Message {
	m := GroupMod{Command: GroupCommand(d.u16())}
	m.Group.Type = GroupType(d.u8())
	d.skip(1)
	m.Group.ID = d.u32()
	m.Group.Buckets = d.buckets()
	return m
}

// group reads one entry of a group description, which must fill the decoder.
func (d *decoder) group() Group {
	d.skip(2)
	g := Group{Type: GroupType(d.u8())}
	d.skip(1)
	g.ID = d.u32()
	body := d.sub(len(d.b))
	if g.Buckets = body.buckets(); body.err != nil {
		g.Buckets, g.Err = nil, body.err
	}
	return g
}
