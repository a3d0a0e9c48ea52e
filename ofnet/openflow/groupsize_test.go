package openflow

import (
	"net/netip"
	"testing"
)

func TestAGroupHasRoomForBucketsOfAMessage(t *testing.T) {
	bucket := Bucket{Actions: []Action{CT{Commit: true, Zone: 7, Recirculate: true, Table: 9, Actions: []Action{
		NAT{Kind: NATDestination, MinIP: netip.MustParseAddr("10.1.0.1"), MinPort: 8080}, SetField{CTMark(1, ^uint32(0))}}}}}
	encoded := func(buckets int) error {
		m := GroupMod{Command: GroupAdd, Group: Group{ID: 1, Type: GroupSelect}}
		for range buckets {
			m.Group.Buckets = append(m.Group.Buckets, bucket)
		}
		var e encoder
		e.message(1, bundleAdd{id: 1, inner: m})
		return e.err
	}
	fit := GroupRoom / bucket.Size()
	if err := encoded(fit); err != nil {
		t.Errorf("%d buckets of %d bytes: %v", fit, bucket.Size(), err)
	}
	if encoded(fit+1) == nil {
		t.Errorf("%d buckets of %d bytes fit", fit+1, bucket.Size())
	}
}
