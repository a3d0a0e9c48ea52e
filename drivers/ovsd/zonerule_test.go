package ovsd

import "testing"

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
