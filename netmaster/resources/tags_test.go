package resources

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/pipeline"
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

// vlanPool returns a pool with the given range, and its set of used tags.
func vlanPool(r TagRange) (VLANPool, tagSet) {
	used := tagSet{}
	return VLANPool{DefineVLANs(r), used}, used
}

// vnis is a pool with the given range, and its allocations.
type vnis struct {
	VXLANPool
	used, local tagSet
}

func vxlanPool(r TagRange) vnis {
	v := vnis{used: tagSet{}, local: tagSet{}}
	v.VXLANPool = VXLANPool{DefineVXLANs(r), v.used, v.local}
	return v
}

func (v vnis) take(requested uint) (vni, tag uint, err error) {
	if vni, tag, err = v.Allocate(requested); err == nil {
		v.used[vni], v.local[tag] = true, true
	}
	return vni, tag, err
}

func TestVLANsAreTakenFromTheLowest(t *testing.T) {
	p, used := vlanPool(TagRange{100, 102})
	for _, c := range []struct{ asked, want uint }{{101, 101}, {0, 100}, {0, 102}} {
		vlan, err := p.Allocate(c.asked)
		if err != nil || vlan != c.want {
			t.Fatalf("got %d, %v, want %d", vlan, err, c.want)
		}
		used[vlan] = true
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
	delete(used, 101)
	if p.InUse() != "100, 102" {
		t.Errorf("in use %q", p.InUse())
	}
}

func TestVLANPoolOfTheWholeRangeLeavesOutTheEnds(t *testing.T) {
	p, _ := vlanPool(TagRange{1, 4095})
	if n := p.Config.VLANs.Count(); n != 4094 || p.Config.VLANs.Len() != 4096 {
		t.Errorf("%d of %d bits", n, p.Config.VLANs.Len())
	}
	if _, err := p.Allocate(4095); err == nil {
		t.Error("4095 was given")
	}
}

func TestVNIsComeWithALocalTag(t *testing.T) {
	p := vxlanPool(TagRange{5000, 5002})
	for _, want := range [][2]uint{{5000, 1}, {5001, 2}} {
		if vni, vlan, err := p.take(0); err != nil || vni != want[0] || vlan != want[1] {
			t.Fatalf("got %d, %d, %v, want %v", vni, vlan, err, want)
		}
	}
	for vni, want := range map[uint]string{
		4999: "requested vxlan is out of range", 5001: "requested vxlan not available", 5003: "requested vxlan not available",
		1 << 24: "requested vxlan not available",
	} {
		if _, _, err := p.take(vni); text(err) != want {
			t.Errorf("vni %d: %q, want %q", vni, text(err), want)
		}
	}
	if vni, vlan, err := p.take(5002); err != nil || vni != 5002 || vlan != 3 {
		t.Fatal(vni, vlan, err)
	}
	if _, _, err := p.take(0); text(err) != "no vxlans available" {
		t.Error(err)
	}
	delete(p.used, 5000)
	delete(p.local, 1)
	if p.InUse() != "5001-5002" {
		t.Errorf("in use %q", p.InUse())
	}
	if vni, vlan, err := p.take(0); err != nil || vni != 5000 || vlan != 1 {
		t.Fatal(vni, vlan, err)
	}
}

func TestTheRangeOfVNIsIsTheOnlyLimitOfVXLANNetworks(t *testing.T) {
	p := vxlanPool(TagRange{20000, 20000 + maxVXLANSpan})
	for tag := uint(1); tag <= maxVXLANSpan; tag++ {
		p.used[19999+tag], p.local[tag] = true, true
	}
	if vni, tag, err := p.take(0); err != nil || vni != 20000+maxVXLANSpan || tag != maxVXLANSpan+1 {
		t.Fatal(vni, tag, err)
	}
	if _, _, err := p.take(0); text(err) != "no vxlans available" {
		t.Error(err)
	}
}

func TestResizeKeepsWhatIsInUse(t *testing.T) {
	vlans, used := vlanPool(TagRange{1, 100})
	vnis := vxlanPool(TagRange{1, 100})
	for _, tag := range []uint{10, 20} {
		used[tag] = true
		if _, _, err := vnis.take(tag); err != nil {
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
	if vni, vlan, err := vnis.take(0); err != nil || vni != 11 || vlan != 3 {
		t.Errorf("next vni %d, vlan %d, %v", vni, vlan, err)
	}
}

func TestGroupIDsAndRoutingDomainsAreTheLowestFree(t *testing.T) {
	full := tagSet{}
	for id := uint(1); id <= pipeline.MaxGroup; id++ {
		full[id] = true
	}
	if _, err := LowestGroupID(full); text(err) != "no endpoint group ids available" {
		t.Error(err)
	}
	delete(full, 17)
	if id, err := LowestGroupID(full); err != nil || id != 17 {
		t.Errorf("got %d, %v", id, err)
	}
	for id := uint(1); id <= pipeline.MaxVRF; id++ {
		full[id] = true
	}
	if _, err := LowestVRF(full); text(err) != "no routing domain numbers available" {
		t.Error(err)
	}
	for _, c := range []struct {
		taken tagSet
		want  uint16
	}{{nil, 1}, {tagSet{1: true, 2: true}, 3}, {tagSet{2: true, 3: true}, 1}, {tagSet{1: true, 3: true}, 2}} {
		if got, err := LowestVRF(c.taken); err != nil || got != c.want {
			t.Errorf("%v: got %d, %v", c.taken, got, err)
		}
	}
}

// Tags are never assigned twice, whatever is resized in between.
func TestVXLANPoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := vxlanPool(TagRange{10, 30})
		low, high := uint(10), uint(30)
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				requested := rapid.UintRange(0, 40).Draw(t, "requested")
				vni, tag, err := p.Allocate(requested)
				room := requested == 0 && len(p.used) < int(high-low+1) || requested >= low && requested <= high && !p.used[requested]
				if (err == nil) != room {
					t.Fatalf("asked for %d of %d-%d with %v in use: %v", requested, low, high, p.used, err)
				}
				if err != nil {
					return
				}
				if p.used[vni] || p.local[tag] || vni < low || vni > high {
					t.Fatalf("vni %d and tag %d given with %v and %v in use", vni, tag, p.used, p.local)
				}
				p.used[vni], p.local[tag] = true, true
			},
			"free": func(t *rapid.T) {
				for vni := range p.used {
					delete(p.used, vni)
					break
				}
				for tag := range p.local {
					delete(p.local, tag)
					break
				}
			},
			"resize": func(t *rapid.T) {
				from := rapid.UintRange(1, 30).Draw(t, "min")
				r := TagRange{from, rapid.UintRange(from, 60).Draw(t, "max")}
				fits := true
				for vni := range p.used {
					fits = fits && vni >= r.Min && vni <= r.Max
				}
				if (p.Resize(r) == nil) != fits {
					t.Fatalf("resize to %v with %v in use", r, p.used)
				}
				if fits {
					low, high = r.Min, r.Max
				}
			},
		})
	})
}
