package ovsd

import (
	"fmt"
	"strings"
	"testing"
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
	if port, count := mostMasks(dump.String()); port != "vvport7" || count != 20 {
		t.Errorf("%s has %d masks", port, count)
	}
	if port, count := mostMasks("nothing\n"); port != "" || count != 0 {
		t.Errorf("of no flows %q has %d", port, count)
	}
}

// Whatever the switch prints, the port is one that it names, and has no more masks than there are flows.
func FuzzDumpsOfAnyContent(f *testing.F) {
	for _, dump := range []string{"", "nothing\n", "recirc_id(0),in_port(vvport7),eth_type(0x0800),ipv4(src=10.1.0.1,dst=10.0.0.0/8), packets:1, bytes:64, used:0.1s, actions:drop\n",
		"in_port(),x(=,)\nin_port(a),=1/2\n", "in_port(a\n", ", packets:in_port(a)\n"} {
		f.Add(dump)
	}
	f.Fuzz(func(t *testing.T, dump string) {
		port, count := mostMasks(dump)
		if flows := strings.Count(dump, "in_port("); count > flows || count > 0 && !strings.Contains(dump, "in_port("+port+")") || count == 0 && port != "" {
			t.Errorf("%q has %d masks, of %d flows", port, count, flows)
		}
	})
}
