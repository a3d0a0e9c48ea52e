package ovsd

import (
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

func TestTheOldestPacketMakesRoomInAFullQueue(t *testing.T) {
	const class, more = pipeline.PacketRefused, 3
	d := &Driver{packets: newPackets()}
	send := func(i int) {
		d.packets.take(openflow.PacketIn{UserData: []byte{byte(class)}, Data: []byte{byte(i)}})
	}
	send(0) // the class has no reader yet
	queue := d.Packets(class)
	for i := range packetQueue + more {
		send(i)
	}
	if n := d.PacketsDropped(class); n != 1+more {
		t.Errorf("%d are counted as dropped, want %d", n, 1+more)
	}
	for i := range packetQueue {
		if p := <-queue; p.Data[0] != byte(i+more) {
			t.Fatalf("packet %d is number %d", i, p.Data[0])
		}
	}
}
