package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func prefixes(text string) (all []netip.Prefix) {
	for p := range strings.FieldsSeq(text) {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func claims(what, text string) (all []claim) {
	for _, p := range prefixes(text) {
		all = append(all, claim{what, p})
	}
	return all
}

func TestANewClusterGetsRangesThatOverlapNothing(t *testing.T) {
	for name, c := range map[string]struct {
		services, taken string
		pods            []source
		want            string // pods and nodes of each IP family
		refusal         string
	}{
		"nobody says anything":      {services: "10.96.0.0/12", want: "10.128.0.0/14 10.127.0.0/16"},
		"both versions of IP":       {services: "10.96.0.0/12 fd00:96::/108", want: "10.128.0.0/14 10.127.0.0/16 fd00:10:128::/64 fd00:10:127::/64"},
		"IPv6 only":                 {services: "fd00:96::/108", want: "fd00:10:128::/64 fd00:10:127::/64"},
		"the first source wins":     {services: "10.96.0.0/12", pods: []source{{"a", nil}, {"b", prefixes("10.4.0.0/16")}, {"c", prefixes("10.5.0.0/16")}}, want: "10.4.0.0/16 10.127.0.0/16"},
		"each version on its own":   {services: "10.96.0.0/12 fd00:96::/108", pods: []source{{"a", prefixes("10.4.0.0/16")}, {"b", prefixes("10.5.0.0/16 fd05::/64")}}, want: "10.4.0.0/16 10.127.0.0/16 fd05::/64 fd00:10:127::/64"},
		"a version without service": {services: "10.96.0.0/12", pods: []source{{"a", prefixes("fd05::/64 10.4.0.0/16")}}, want: "10.4.0.0/16 10.127.0.0/16"},
		"bits of a host":            {services: "10.96.0.0/12", pods: []source{{"a", prefixes("10.4.3.1/16")}}, want: "10.4.0.0/16 10.127.0.0/16"},
		"nodes give way":            {services: "10.96.0.0/12", taken: "10.127.3.4/32", want: "10.128.0.0/14 100.127.0.0/16"},
		"pods over services":        {services: "10.130.0.0/16", refusal: "default range of pods 10.128.0.0/14 overlaps service range 10.130.0.0/16"},
		"pods over a node":          {services: "10.96.0.0/12", taken: "192.0.2.1/32", pods: []source{{"--cluster-cidr", prefixes("192.0.2.0/24")}}, refusal: "--cluster-cidr 192.0.2.0/24 overlaps address 192.0.2.1/32"},
		"services over a node":      {services: "10.96.0.0/12", taken: "10.97.0.1/32", refusal: "service range 10.96.0.0/12 overlaps address 10.97.0.1/32"},
		"a node in others' range":   {services: "10.96.0.0/12", taken: "172.19.0.0/16 172.19.0.5/32", refusal: "address 172.19.0.5/32 overlaps address 172.19.0.0/16"},
		"two nodes behind one":      {services: "10.96.0.0/12", taken: "192.0.2.5/32 192.0.2.5/32", want: "10.128.0.0/14 10.127.0.0/16"},
		"no service range":          {refusal: "no ServiceCIDR"},
		"no range for nodes":        {services: "10.96.0.0/12", pods: []source{{"a", prefixes("10.4.0.0/16")}}, taken: "10.127.0.1/32 100.127.0.1/32 192.168.0.1/32", refusal: "netctl"},
	} {
		s := surroundings{services: claims("service range", c.services), pods: c.pods, taken: claims("address", c.taken)}
		chosen, err := s.choose()
		var got []string
		for _, r := range chosen {
			got = append(got, r.pods.prefix.String(), r.nodes.prefix.String())
		}
		if c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %v, want %q", name, err, c.refusal)
		}
		if c.refusal == "" && (err != nil || !slices.Equal(got, strings.Fields(c.want))) {
			t.Errorf("%s: %v, %v, want %s", name, got, err, c.want)
		}
	}
}

func TestRangesMakeOneBlock(t *testing.T) {
	for parts, want := range map[string]string{
		"":                            "",
		"10.244.0.0/24":               "10.244.0.0/24",
		"10.244.1.0/24 10.244.0.0/24": "10.244.0.0/23",
		"10.244.1.0/24 10.244.2.0/24": "", // not aligned
		"10.244.0.0/24 10.244.2.0/24": "",
		"10.244.0.0/24 10.244.1.0/24 10.244.2.0/24":               "",
		"10.244.3.0/24 10.244.0.0/24 10.244.2.0/24 10.244.1.0/24": "10.244.0.0/22",
		"10.244.2.0/23 10.244.0.0/24 10.244.1.0/24":               "10.244.0.0/22",
		"10.244.0.0/24 10.244.0.0/24":                             "10.244.0.0/24",
		"fd00:0:0:1::/64 fd00::/64":                               "fd00::/63",
		"0.0.0.0/1 128.0.0.0/1":                                   "0.0.0.0/0",
	} {
		whole, ok := block(prefixes(parts))
		got := ""
		if ok {
			got = whole.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", parts, got, want)
		}
	}
}

func TestOneRangeOfEachVersionOfIPIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "10.1.0.0/16": "[10.1.0.0/16]", " fd00::1/64, 10.1.2.3/16": "[fd00::/64 10.1.0.0/16]",
		"10.1.0.0/16,10.2.0.0/16": "second range", "10.1.0.0": "no '/'", "x/3": "unable to parse",
	} {
		all, err := ParseRanges(text)
		if got := fmt.Sprint(all, err); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
