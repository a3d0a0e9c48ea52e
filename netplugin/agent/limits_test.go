package agent

import (
	"math"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

func TestTheLimitsOfAProfileInTheUnitsOfTheSwitch(t *testing.T) {
	for _, c := range []struct {
		group string
		want  pipeline.Limits
	}{
		{`{}`, pipeline.Limits{}},
		{`{"Bandwidth":"1 kbps"}`, pipeline.Limits{Rate: 1}},
		{`{"Bandwidth":"100 kb"}`, pipeline.Limits{Rate: 102}},
		{`{"Bandwidth":"10Mbps","Burst":20,"DSCP":46}`, pipeline.Limits{Rate: 10485, Burst: 163, DSCP: 46}},
		{`{"Bandwidth":"100mb"}`, pipeline.Limits{Rate: 104857}},
		{`{"Bandwidth":"1gbps","Burst":2}`, pipeline.Limits{Rate: 1073741, Burst: 16}},
		{`{"Bandwidth":"10G","Burst":10486}`, pipeline.Limits{Rate: 10737418, Burst: 85901}},
		{`{"Bandwidth":"5000G"}`, pipeline.Limits{Rate: math.MaxUint32}},
		{`{"Bandwidth":"99999999999999999999 gbps"}`, pipeline.Limits{Rate: math.MaxUint32}},
		{`{"DSCP":63}`, pipeline.Limits{DSCP: 63}},
	} {
		got, err := decodeLimits([]byte(c.group))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.group, got, err, c.want)
		}
	}
	for group, cause := range map[string]string{
		`{"Bandwidth":"10 MB"}`: `bandwidth "10 MB" is not`,
		`{"Bandwidth":"0k"}`:    `bandwidth "0k" is not`,
		`{"Bandwidth":"10 {"}`:  `bandwidth "10 {" is not`,
		`{"DSCP":64}`:           "DSCP 64 is not in 0..63",
		`{"DSCP":-1}`:           "DSCP -1 is not in 0..63",
		`{"Burst":-1}`:          "burst -1 is negative",
	} {
		if _, err := decodeLimits([]byte(group)); err == nil || !strings.HasPrefix(err.Error(), cause) {
			t.Errorf("%s: %v, want %s...", group, err, cause)
		}
	}
}

// The limits of a group apply to its endpoints on this node, in whatever order the records arrive, and to no
// others.
func TestTheLimitsOfAGroupAreThoseOfItsEndpointsHere(t *testing.T) {
	c := newCache(me, quiet)
	put := func(key, value string) { c.apply(key, []byte(value), 1) }
	put(netKey("web.blue"), netValue("blue", ""))
	put(vrfKey("blue"), `{"vrf":1}`)
	member := func(host, address string) string {
		return strings.Replace(epValue("web.blue", host, address), "{", `{"endpointGroupId":3,"endpointGroupKey":"front:blue",`, 1)
	}
	put(epKey("web.blue-1"), member(me, "10.1.0.2"))
	put(epKey("web.blue-2"), member("node2", "10.1.0.3"))
	put(epKey("web.blue-3"), epValue("web.blue", me, "10.1.0.4"))
	put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2"))
	limits := func(id string) pipeline.Limits {
		o, err := c.wanted(pipeline.Key{Kind: pipeline.KindEndpoint, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return o.(pipeline.Endpoint).Limits
	}
	group := mastercfg.EndpointGroupPrefix + "front:blue"
	for _, step := range []struct {
		value string
		want  pipeline.Limits
		moved int // objects to plan again
	}{
		{`{"Bandwidth":"10Mbps","Burst":20}`, pipeline.Limits{Rate: 10485, Burst: 163}, 1},
		{`{"Bandwidth":"10Mbps","Burst":20,"epCount":5}`, pipeline.Limits{Rate: 10485, Burst: 163}, 0},
		{`{"Bandwidth":"1Gbps","DSCP":7}`, pipeline.Limits{Rate: 1073741, DSCP: 7}, 1},
		{`{"Bandwidth":"nonsense"}`, pipeline.Limits{}, 1},
		{`{"DSCP":7}`, pipeline.Limits{DSCP: 7}, 1},
		{"", pipeline.Limits{}, 1},
	} {
		clear(c.dirty)
		if step.value == "" {
			c.apply(group, nil, 0)
		} else {
			put(group, step.value)
		}
		if got := limits("web.blue-1"); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.value, got, step.want)
		}
		if len(c.dirty) != step.moved {
			t.Errorf("%s: %d objects may have changed, want %d", step.value, len(c.dirty), step.moved)
		}
		for _, other := range []string{"web.blue-2", "web.blue-3"} {
			if got := limits(other); got != (pipeline.Limits{}) {
				t.Errorf("%s: %s has %+v", step.value, other, got)
			}
		}
	}
}

// A pod's annotations apply to its endpoint together with its group's profile, whether they arrive before the
// endpoint or after it.
func TestTheBandwidthOfAPodIsThatOfItsEndpoint(t *testing.T) {
	c := newCache(me, quiet)
	put := func(key, value string) { c.apply(key, []byte(value), 1) }
	put(netKey("web.blue"), netValue("blue", ""))
	put(vrfKey("blue"), `{"vrf":1}`)
	put(mastercfg.EndpointGroupPrefix+"front:blue", `{"Bandwidth":"10Mbps","Burst":20}`)
	put(mastercfg.K8sPodKey(me, "u1"), `{"ingress":1000,"egress":5000000}`)
	put(epKey("web.blue-1"), strings.Replace(epValue("web.blue", me, "10.1.0.2"), "{", `{"podUID":"u1","endpointGroupId":3,"endpointGroupKey":"front:blue",`, 1))
	want := pipeline.Limits{Rate: 10485, Burst: 163}
	for _, step := range []struct {
		pod            string
		sent, received uint32
		moved          int
	}{
		{"", 5000, 1, 0},
		{`{"ingress":1000,"egress":5000000,"later":"x"}`, 5000, 1, 0},
		{`{"ingress":1001,"egress":5}`, 1, 1, 1},
		{`{"ingress":1000000000000000}`, 0, math.MaxUint32, 1},
		{`{}`, 0, 0, 1},
		{`{"egress":5000000,"profile":{"name":"gold","bandwidth":"1 kbps","DSCP":46,"burst":2}}`, 5000, 0, 1},
		{`{"profile":{"name":"free"}}`, 0, 0, 1}, // without limits, in place of the group's
		{`{}`, 0, 0, 1},
	} {
		want := want
		switch {
		case strings.Contains(step.pod, "gold"):
			want = pipeline.Limits{Rate: 1, Burst: 16, DSCP: 46}
		case strings.Contains(step.pod, "free"):
			want = pipeline.Limits{}
		}
		clear(c.dirty)
		if step.pod != "" {
			put(mastercfg.K8sPodKey(me, "u1"), step.pod)
		}
		o, err := c.wanted(pipeline.Key{Kind: pipeline.KindEndpoint, ID: "web.blue-1"})
		if err != nil {
			t.Fatal(err)
		}
		if want.Sent, want.Received = step.sent, step.received; o.(pipeline.Endpoint).Limits != want {
			t.Errorf("%s: %+v, want %+v", step.pod, o.(pipeline.Endpoint).Limits, want)
		}
		if len(c.dirty) != step.moved && step.pod != "" {
			t.Errorf("%s: %d objects may have changed, want %d", step.pod, len(c.dirty), step.moved)
		}
	}
}
