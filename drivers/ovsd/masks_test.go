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
