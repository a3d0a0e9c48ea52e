package resources

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTagRangesAreChecked(t *testing.T) {
	for _, c := range []struct{ vlans, vxlans, want string }{
		{vlans: "1-4094"},
		{vlans: "1-4095"},
		{vlans: "10-10"},
		{vlans: "20-10", want: "invalid range 20-10, min is greater than max"},
		{vlans: "0-10", want: "invalid range 0-10, values less than 1"},
		{vlans: "1-4096", want: "invalid range 1-4096, vlan values exceed 4095 max allowed"},
		{vlans: "7", want: "invalid range 7, want min-max"},
		{vxlans: "1-10000"},
		{vxlans: "49535-65535"},
		{vxlans: "1-65536", want: "invalid range 1-65536, vxlan values exceed 65535 max allowed"},
		{vxlans: "1-16002", want: "does not allow vxlan range to exceed 16000 range 1-16002"},
		{vxlans: "0-1", want: "invalid range 0-1, values less than 1"},
	} {
		parse, value := ParseVLANRange, c.vlans
		if c.vxlans != "" {
			parse, value = ParseVXLANRange, c.vxlans
		}
		if _, err := parse(value); text(err) != c.want {
			t.Errorf("%s: %q, want %q", value, text(err), c.want)
		}
	}
}

func TestVLANsAreTakenAndGivenBack(t *testing.T) {
	p := DefineVLANs(TagRange{100, 102})
	if vlan, err := p.Allocate(101); err != nil || vlan != 101 {
		t.Fatal(vlan, err)
	}
	for _, want := range []uint{100, 102} {
		if vlan, err := p.Allocate(0); err != nil || vlan != want {
			t.Fatalf("got %d, %v, want %d", vlan, err, want)
		}
	}
	if _, err := p.Allocate(0); text(err) != "no vlans available" {
		t.Error(err)
	}
	for _, vlan := range []uint{101, 99, 4095, 70000} {
		if _, err := p.Allocate(vlan); text(err) == "" {
			t.Errorf("vlan %d was given", vlan)
		}
	}
	if p.InUse() != "100-102" || p.Count() != 3 {
		t.Errorf("in use %q, %d", p.InUse(), p.Count())
	}
	p.Free(101)
	p.Free(101)
	p.Free(7) // not of the pool
	if p.InUse() != "100, 102" {
		t.Errorf("in use %q", p.InUse())
	}
}

func TestVLANPoolOfTheWholeRangeLeavesOutTheEnds(t *testing.T) {
	p := DefineVLANs(TagRange{1, 4095})
	if n := p.Oper.FreeVLANs.Count(); n != 4094 || p.Oper.FreeVLANs.Len() != 4096 {
		t.Errorf("%d free of %d bits", n, p.Oper.FreeVLANs.Len())
	}
	if _, err := p.Allocate(4095); err == nil {
		t.Error("4095 was given")
	}
}

func TestVNIsComeWithALocalTag(t *testing.T) {
	p := DefineVXLANs(TagRange{5000, 5002})
	for _, want := range [][2]uint{{5000, 1}, {5001, 2}} {
		if vni, vlan, err := p.Allocate(0); err != nil || vni != want[0] || vlan != want[1] {
			t.Fatalf("got %d, %d, %v, want %v", vni, vlan, err, want)
		}
	}
	for vni, want := range map[uint]string{
		4999: "requested vxlan is out of range", 5001: "requested vxlan not available", 5003: "requested vxlan not available",
		1 << 24: "requested vxlan not available",
	} {
		if _, _, err := p.Allocate(vni); text(err) != want {
			t.Errorf("vni %d: %q, want %q", vni, text(err), want)
		}
	}
	if vni, vlan, err := p.Allocate(5002); err != nil || vni != 5002 || vlan != 3 {
		t.Fatal(vni, vlan, err)
	}
	if _, _, err := p.Allocate(0); text(err) != "no vxlans available" {
		t.Error(err)
	}
	p.Free(5000, 1)
	if p.InUse() != "5001-5002" {
		t.Errorf("in use %q", p.InUse())
	}
	if vni, vlan, err := p.Allocate(0); err != nil || vni != 5000 || vlan != 1 {
		t.Fatal(vni, vlan, err)
	}
}

func TestTheRangeOfVNIsIsTheOnlyLimitOfVXLANNetworks(t *testing.T) {
	p := DefineVXLANs(TagRange{20000, 20000 + maxVXLANSpan})
	for i := uint(1); i <= maxVXLANSpan+1; i++ {
		if vni, tag, err := p.Allocate(0); err != nil || vni != 19999+i || tag != i {
			t.Fatal(i, vni, tag, err)
		}
	}
	if _, _, err := p.Allocate(0); text(err) != "no vxlans available" {
		t.Error(err)
	}
}

func TestAPoolOfLocalVLANsBecomesOneOfLocalTags(t *testing.T) {
	p := DefineVXLANs(TagRange{1, 10000})
	p.Config.LocalVLANs, p.Oper.FreeLocalVLANs = filled(vlanBits, 1, 4094), filled(vlanBits, 3, 4094)
	if !p.Rebuild(map[uint]uint{1: 1, 2: 2}) || p.Rebuild(map[uint]uint{1: 1, 2: 2}) {
		t.Error("the first rebuild changes the pool, the second nothing")
	}
	if n := p.Oper.FreeLocalVLANs.Count(); n != maxLocalTag-2 || !p.Config.LocalVLANs.Test(maxLocalTag) {
		t.Errorf("%d local tags are free", n)
	}
}

func TestResizeKeepsWhatIsInUse(t *testing.T) {
	vlans := DefineVLANs(TagRange{1, 100})
	vnis := DefineVXLANs(TagRange{1, 100})
	for _, tag := range []uint{10, 20} {
		if _, err := vlans.Allocate(tag); err != nil {
			t.Fatal(err)
		}
		if _, _, err := vnis.Allocate(tag); err != nil {
			t.Fatal(err)
		}
	}
	if err := vlans.Resize(TagRange{11, 100}); text(err) != "cannot update the vlan range due to existing vlans 10, 20" {
		t.Error(err)
	}
	if err := vnis.Resize(TagRange{1, 19}); text(err) != "cannot update the vxlan range due to existing vxlans 10, 20" {
		t.Error(err)
	}
	for _, err := range []error{vlans.Resize(TagRange{10, 20}), vnis.Resize(TagRange{10, 20})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if vlans.InUse() != "10, 20" || vnis.InUse() != "10, 20" || vnis.Config.FreeVXLANsStart != 9 {
		t.Errorf("in use %q and %q from %d", vlans.InUse(), vnis.InUse(), vnis.Config.FreeVXLANsStart)
	}
	if vni, vlan, err := vnis.Allocate(0); err != nil || vni != 11 || vlan != 3 {
		t.Errorf("next vni %d, vlan %d, %v", vni, vlan, err)
	}
}

func TestGroupIDsAreUniqueAndStayBelow32768(t *testing.T) {
	ids := NewGroupIDs()
	for want := 1; want <= 32767; want++ {
		if id, err := ids.Allocate(); err != nil || id != want {
			t.Fatalf("got %d, %v, want %d", id, err, want)
		}
	}
	if _, err := ids.Allocate(); text(err) != "no endpoint group ids available" {
		t.Error(err)
	}
	ids.Free(17)
	ids.Free(0)
	ids.Free(40000)
	if id, err := ids.Allocate(); err != nil || id != 17 {
		t.Errorf("got %d, %v", id, err)
	}
}

func TestRoutingDomainsAreNumberedFromTheLowestFree(t *testing.T) {
	for _, c := range []struct {
		taken []uint16
		want  uint16
	}{{nil, 1}, {[]uint16{1, 2}, 3}, {[]uint16{2, 3}, 1}, {[]uint16{1, 3}, 2}, {[]uint16{1, 1, 2, 4, 5}, 3}} {
		got, err := LowestFreeVRF(func(taken func(uint16) bool) {
			for _, n := range c.taken {
				if !taken(n) {
					return
				}
			}
		})
		if err != nil || got != c.want {
			t.Errorf("%v: got %d, %v", c.taken, got, err)
		}
	}
}

// Tags are never given twice, whatever is resized in between.
func TestVXLANPoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefineVXLANs(TagRange{10, 30})
		have := map[uint]uint{}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				vni, vlan, err := p.Allocate(rapid.UintRange(0, 40).Draw(t, "requested"))
				if err != nil {
					return
				}
				if _, twice := have[vni]; twice {
					t.Fatalf("vni %d given twice", vni)
				}
				for other, taken := range have {
					if taken == vlan {
						t.Fatalf("vlan %d given to vni %d and %d", vlan, other, vni)
					}
				}
				have[vni] = vlan
			},
			"free": func(t *rapid.T) {
				for vni, vlan := range have {
					p.Free(vni, vlan)
					delete(have, vni)
					return
				}
			},
			"resize": func(t *rapid.T) {
				low := rapid.UintRange(1, 30).Draw(t, "min")
				r := TagRange{low, rapid.UintRange(low, 60).Draw(t, "max")}
				fits := true
				for vni := range have {
					fits = fits && vni >= r.Min && vni <= r.Max
				}
				if (p.Resize(r) == nil) != fits {
					t.Fatalf("resize to %v with %v in use", r, have)
				}
			},
			"": func(t *rapid.T) {
				if p.Count() != len(have) || p.Rebuild(have) {
					t.Fatalf("%d in use (%s), want %v", p.Count(), p.InUse(), have)
				}
			},
		})
	})
}
