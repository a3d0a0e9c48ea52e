package pipeline

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// size returns the bytes of a group's buckets.
func size(g openflow.Group) (all int) {
	for _, b := range g.Buckets {
		all += b.Size()
	}
	return all
}

// For every kind of group, the largest number of buckets that an object may have fits into a message.
func TestGroupsOfTheLargestObjectsFitIntoAMessage(t *testing.T) {
	c := startCluster(t, web1)
	n := c.pod(web1).node
	p := n.pipeline
	fits := func(what string, o Object) {
		t.Helper()
		w, err := p.For(o, 7)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if len(w.Groups) == 0 {
			t.Errorf("%s: no group", what)
		}
		n.replace(t, w)
		for _, g := range w.Groups {
			if got := size(g); got > openflow.GroupRoom {
				t.Errorf("%s: %d buckets have %d bytes, and there is room for %d", what, len(g.Buckets), got, openflow.GroupRoom)
			}
		}
	}
	provider := func(four bool, i int) netip.Addr {
		if four {
			return netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)})
		}
		return netip.AddrFrom16([16]byte{0xfd, 9, 14: byte(i >> 8), 15: byte(i)})
	}
	for _, a := range []netip.Addr{addr("192.0.2.1"), addr("2001:db8::1")} {
		s := FloodSet{Network: "n", Encap: VXLAN, VNI: 5, Tag: 1}
		for i := range MaxMembers {
			s.Members = append(s.Members, [6]byte{2, 2, 4: byte(i >> 8), 5: byte(i)})
		}
		for i := range MaxFloodPeers {
			s.VTEPs = append(s.VTEPs, provider(a.Is4(), i))
		}
		fits("a flood set with peers like "+a.String(), s)
	}
	for _, protocol := range []uint8{openflow.ProtoTCP, openflow.ProtoUDP} {
		for _, a := range []netip.Addr{addr("10.1.1.200"), addr("fd00::200")} {
			for _, from := range []Clients{FromPods, ^Clients(0)} {
				port := ServicePort{Address: a, From: from, Protocol: protocol, Port: 80}
				alone := Service{ID: "s", VRF: 1, Tag: 1, Ports: []ServicePort{port}}
				shared := Service{ID: "s", VRF: 1, Tag: 1, Ports: []ServicePort{port}}
				shared.Ports[0].Target = 8080
				for i := range MaxProviders {
					alone.Ports[0].Serving = append(alone.Ports[0].Serving, netip.AddrPortFrom(provider(a.Is4(), i), 8080))
					shared.Providers = append(shared.Providers, provider(a.Is4(), i))
				}
				for kind, s := range map[string]Service{"of its port": alone, "of all ports": shared} {
					fits(fmt.Sprintf("providers %s: protocol %d, from %x, of %s", kind, protocol, from, a), s.Numbered(func(uint32) bool { return false }))
				}
			}
		}
	}
}

// A group of a tenant's service has as many providers of one IP family as there is room for.
func TestAServiceHasAsManyProvidersAsFitIntoItsGroups(t *testing.T) {
	s := Service{ID: "s", VRF: 1, Tag: 1, Ports: []ServicePort{
		{Address: addr("10.1.1.200"), From: FromPods, Protocol: openflow.ProtoTCP, Port: 80, Target: 8080},
		{Address: addr("fd00::200"), From: ^Clients(0), Protocol: openflow.ProtoUDP, Port: 80, Target: 8080},
	}}
	s = s.Numbered(func(uint32) bool { return false })
	with := func(four, six int) error {
		s.Providers = nil
		for i := range four {
			s.Providers = append(s.Providers, netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}))
		}
		for i := range six {
			s.Providers = append(s.Providers, netip.AddrFrom16([16]byte{0xfd, 9, 14: byte(i >> 8), 15: byte(i)}))
		}
		w, err := node1().For(s, 7)
		for _, g := range w.Groups {
			if err == nil && size(g) > openflow.GroupRoom {
				t.Errorf("%d and %d: %d bytes", four, six, size(g))
			}
		}
		return err
	}
	for _, c := range []struct {
		four, six int
		fits      bool
	}{{380, 380, true}, {629, 380, true}, {630, 380, false}, {500, 389, true}, {500, 390, false}, {10, 390, false}} {
		if err := with(c.four, c.six); (err == nil) != c.fits {
			t.Errorf("%d of IPv4 and %d of IPv6: %v", c.four, c.six, err)
		}
	}
}
