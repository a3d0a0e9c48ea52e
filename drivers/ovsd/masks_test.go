package ovsd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWhoseMasksAreMostIsFoundInADump(t *testing.T) {
	var dump strings.Builder
	for bits := 8; bits < 28; bits++ {
		for host := range 3 { // of one mask
			fmt.Fprintf(&dump, "recirc_id(0),in_port(vvport7),packet_type(ns=0,id=0),eth(src=02:02:0a:01:00:01,dst=00:00:11:11:11:11),eth_type(0x0800),"+
				"ipv4(src=10.1.0.1,dst=%d.0.0.0/%d,proto=17,frag=no),udp(dst=%d), packets:1, bytes:64, used:0.1s, actions:drop\n", host, bits, 9000+host)
		}
	}
	for port := range 40 { // one mask
		fmt.Fprintf(&dump, "recirc_id(0x%x),in_port(vvport8),eth_type(0x0800),ipv4(dst=10.1.0.%d,frag=no),tcp(dst=%d), packets:0, bytes:0, used:never, actions:3\n", port, port, port)
	}
	if port, count := most(masksByPort(dump.String())); port != "vvport7" || count != 20 {
		t.Errorf("%s has %d masks", port, count)
	}
	if port, count := most(masksByPort("nothing\n")); port != "" || count != 0 {
		t.Errorf("of no flows %q has %d", port, count)
	}
}

func TestWhoOffendsAgainIsSlowedDownForLonger(t *testing.T) {
	const many = 200
	s := newSlowing(many)
	var is slowdown
	now := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		why   string
		after time.Duration
		masks int
		want  string // on or off, and for how long; empty: an ordinary port
	}{
		{"few masks", 0, many - 1, ""},
		{"many", 0, many, "on 5m0s"},
		{"few of its packets are looked up", 4 * time.Minute, 10, "on 5m0s"},
		{"its time is over", time.Minute + time.Second, 10, "off 5m0s"},
		{"again", time.Minute, many, "on 10m0s"},
		{"its time is over, whatever it does", 10*time.Minute + time.Second, many, "off 10m0s"},
		{"it goes on", time.Second, many, "on 20m0s"},
		{"over", 21 * time.Minute, 0, "off 20m0s"},
		{"and on", time.Second, many, "on 40m0s"},
		{"over", 41 * time.Minute, 0, "off 40m0s"},
		{"and on", time.Second, many, "on 1h0m0s"},
		{"over", 61 * time.Minute, 0, "off 1h0m0s"},
		{"and on, and no longer than that", time.Second, many, "on 1h0m0s"},
		{"the clock is set back", -24 * time.Hour, 0, "off 1h0m0s"},
		{"for a while", 59 * time.Minute, 0, "off 1h0m0s"},
		{"forgotten", 2 * time.Minute, 0, ""},
		{"anew", time.Minute, many, "on 5m0s"},
	} {
		now = now.Add(step.after)
		is = s.next(is, step.masks, now)
		is = interfaceRow{ExternalIDs: map[string]string{idSlowed: is.String()}}.slowdown() // as read by the next agent
		if got := strings.TrimPrefix(fmt.Sprintf("%s %s", map[bool]string{true: "on", false: "off"}[is.on], is.length), "off 0s"); got != step.want {
			t.Fatalf("%s: %q, want %q", step.why, got, step.want)
		}
	}
	off := newSlowing(-1)
	if is := off.next(is, 10*many, now); is != (slowdown{}) {
		t.Errorf("where nobody is slowed down: %s", is)
	}
}

// Whatever the switch prints, the port is one that it names, and has at most as many masks as there are flows.
func FuzzDumpsOfAnyContent(f *testing.F) {
	for _, dump := range []string{"", "nothing\n", "recirc_id(0),in_port(vvport7),eth_type(0x0800),ipv4(src=10.1.0.1,dst=10.0.0.0/8), packets:1, bytes:64, used:0.1s, actions:drop\n",
		"in_port(),x(=,)\nin_port(a),=1/2\n", "in_port(a\n", ", packets:in_port(a)\n"} {
		f.Add(dump)
	}
	f.Fuzz(func(t *testing.T, dump string) {
		port, count := most(masksByPort(dump))
		if flows := strings.Count(dump, "in_port("); count > flows || count > 0 && !strings.Contains(dump, "in_port("+port+")") || count == 0 && port != "" {
			t.Errorf("%q has %d masks, of %d flows", port, count, flows)
		}
	})
}
