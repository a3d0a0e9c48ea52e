package pipeline

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A packet that the tracker does not accept as the beginning of a connection, such as an answer without a request,
// is invalid, not dropped for want of room.
func TestWhatBeginsNoConnectionIsInvalidAndNotFull(t *testing.T) {
	c := startCluster(t, web1, web2)
	provider, other := c.pod(web1).node, c.pod(web2).node
	answer := probeFrame{to: web1.IPv4, toMAC: web1.MAC, protocol: openflow.ProtoTCP, src: 4000, dst: 8080, syn: true, ack: true, sender: beyond[0]}
	answer.size = len(answer.header())
	const sent = 3
	for range sent { // like a client that entered by the other node's host
		other.Ofctl("packet-out", bridge, fmt.Sprintf("in_port=controller,packet=%x,actions=set_field:%d->tun_id,set_field:%s->tun_dst,output:%d",
			answer.build(entranceMAC), webBlue.VNI, vtep1, exampleTunnelPort))
	}
	if got := settled(sent, func() uint64 { return provider.dropped(t, reasonInvalid) }); got != sent {
		t.Errorf("%d of %d are dropped as invalid", got, sent)
	}
	if got := provider.dropped(t, reasonFull); got != 0 {
		t.Errorf("%d are dropped for want of room", got)
	}
}
