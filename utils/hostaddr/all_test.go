package hostaddr

import (
	"net/netip"
	"slices"
	"testing"
)

func TestOthersAreToldAddressesThatTheyMayReach(t *testing.T) {
	all := All()
	if own, err := Default(); err == nil && !slices.Contains(all, own.String()) && len(all) < Most {
		t.Errorf("%s is not among %v", own, all)
	}
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err != nil || a.IsLoopback() || a.IsLinkLocalUnicast() {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A proxy of services has an address of each on a link of its own.
func TestAddressesOfServicesLeaveRoomForThoseOfTheMachine(t *testing.T) {
	var all []located
	for i := range 2 * Most {
		all = append(all, located{"kube-ipvs0", netip.AddrFrom4([4]byte{10, 96, 0, byte(i)}), true})
	}
	all = append(all, located{"eth0", netip.MustParseAddr("192.0.2.1"), true}, located{"eth0", netip.MustParseAddr("2001:db8::1"), true}, located{"eth0", netip.MustParseAddr("fe80::1"), true})
	got := told(all)
	if len(got) != Most || got[0] != "10.96.0.0" || got[Most-2] != "192.0.2.1" || got[Most-1] != "2001:db8::1" {
		t.Errorf("others are told %v", got)
	}
}
