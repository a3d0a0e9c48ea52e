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
