package zones

import (
	"maps"
	"testing"
)

func TestWhatAZoneMayHold(t *testing.T) {
	const part, lower, higher = 1000, 500, 5000
	several := zoneRule{limit: part, needed: true}
	kernel := zoneRule{limit: part, needed: true, drops: true}
	chosen := zoneRule{limit: part, needed: true, chosen: true}
	for _, c := range []struct {
		name             string
		rule             zoneRule
		of               string
		now, given, want int
	}{
		{"one tenant", zoneRule{limit: part}, forServices, 0, 0, 0},
		{"one tenant is left over", zoneRule{limit: part}, forServices, part, part, 0},
		{"one tenant, whose limit was set before a restart", zoneRule{limit: part}, forServices, part, 0, 0},
		{"one tenant, whose limit was set when the table was smaller", zoneRule{limit: part}, forServices, lower, lower, 0},
		{"one tenant, limited by somebody", zoneRule{limit: part}, forServices, lower, 0, lower},
		{"the same, higher", zoneRule{limit: part}, forServices, higher, 0, higher},
		{"several", several, forServices, 0, 0, part},
		{"several, and what they have", several, forServices, part, part, part},
		{"several, judged in ovs-vswitchd", several, forPolicies, 0, 0, part},
		{"several, limited by somebody", several, forServices, lower, 0, lower},
		{"several, limited by somebody to more", several, forServices, higher, 0, part},
		{"several, and a table that has grown", several, forServices, lower, lower, part},
		{"in the kernel", kernel, forServices, 0, 0, part},
		{"judged in the kernel", kernel, forPolicies, 0, 0, 0},
		{"judged in the kernel, limited by us", kernel, forPolicies, part, 0, 0},
		{"judged in the kernel, limited by somebody", kernel, forPolicies, lower, 0, lower},
		{"chosen", chosen, forServices, lower, 0, part},
	} {
		if got := c.rule.of(zone{of: c.of}, c.now, c.given); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWhatIsLeftOfTenantsThatAreNotHere(t *testing.T) {
	const part, zone1, zone2 = 1000, 1, 2
	rule := zoneRule{limit: part, needed: true}
	here := map[uint16]zone{zone1: {of: forServices}}
	for _, c := range []struct {
		name        string
		given, used limits
		audit, left bool
		want        limitChange
	}{
		{"a tenant has gone", limits{zone1: part, zone2: part}, limits{zone1: part, zone2: part}, true, true, limitChange{gone: limits{zone2: part}, ours: limits{zone1: part}}},
		{"its limit was another one then", limits{zone2: 500}, limits{zone1: part, zone2: 500}, true, true, limitChange{gone: limits{zone2: 500}, ours: limits{zone1: part}}},
		{"it is not known yet who is here", limits{zone2: part}, limits{zone1: part, zone2: part}, true, false, limitChange{ours: limits{zone1: part, zone2: part}}},
		{"that is left to an audit", limits{zone2: part}, limits{zone1: part, zone2: part}, false, true, limitChange{ours: limits{zone1: part, zone2: part}}},
		{"somebody has set another one since", limits{zone2: part}, limits{zone1: part, zone2: 70}, true, true, limitChange{ours: limits{zone1: part}}},
		{"the datapath has forgotten all", limits{zone1: part, zone2: part}, limits{}, true, true, limitChange{set: limits{zone1: part}, ours: limits{zone1: part}}},
		{"a zone of nobody that was not limited here", limits{}, limits{zone1: part, zone2: part}, true, true, limitChange{ours: limits{zone1: part}}},
	} {
		used := map[uint16]zoneUse{}
		for number, limit := range c.used {
			used[number] = zoneUse{limit: limit}
		}
		got := rule.changes(here, c.given, used, c.audit, func(uint16) bool { return c.left })
		if !maps.Equal(got.set, c.want.set) || !maps.Equal(got.gone, c.want.gone) || !maps.Equal(got.ours, c.want.ours) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := notedLimits(map[string]string{noteKey: limits{zone2: 5, 32769: part}.String()}); !maps.Equal(got, limits{zone2: 5, 32769: part}) {
		t.Errorf("read back: %v", got)
	}
	for _, text := range []string{"", "x", "1=", "70000=5", "1=-5", "=,"} {
		if got := notedLimits(map[string]string{noteKey: text}); len(got) > 0 {
			t.Errorf("%q is %v", text, got)
		}
	}
}
