package ovsd_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Two classes of packets that no feature uses, and their limits of packets per second.
const (
	calm, flooded   pipeline.PacketClass = 101, 102
	packetsInSecond                      = 50
)

// sendUp makes the switch send what a pod sends to UDP port 1000 to the agent, as a class.
func (n *node) sendUp(p *pod, class pipeline.PacketClass) {
	n.t.Helper()
	conn, err := openflow.Dial(patience(n.t), n.Bridge(bridge), openflow.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Send(patience(n.t),
		openflow.MeterMod{Meter: class.Meter(packetsInSecond, packetsInSecond)},
		openflow.FlowMod{Flow: openflow.Flow{Priority: 999, Actions: []openflow.Action{class.Action()},
			Match: openflow.Match{openflow.InPort(p.port.OFPort), openflow.EthType(openflow.EthTypeIPv4),
				openflow.IPProto(openflow.ProtoUDP), openflow.UDPDst(1000)}}})
	if err != nil {
		n.t.Fatal(err)
	}
}

// sends returns a command that sends the output of another one to UDP port 1000 of a pod.
func (p *pod) sends(command string, to *pod) []string {
	return []string{"bash", "-c", "exec 3>/dev/udp/" + to.endpoint.IPv4.String() + "/1000; " + command + " >&3"}
}

func TestAFloodOfPacketsOfOneClassCostsNobodyElse(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	n.sendUp(a, calm)
	n.sendUp(b, flooded)
	wanted := r.Packets(calm)
	r.Packets(flooded) // and never reads them

	a.reaches(b.endpoint.IPv4.String())
	began := time.Now()
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// Many times the rate of the meter, and no more: other tests need the processors, too.
	flood := b.command(b.sends("for i in {1..100000}; do for j in {1..20}; do printf %1000s x; done; sleep 0.01; done", a)...)
	if err := flood.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- flood.Wait() }()
	defer func() {
		_ = flood.Process.Kill()
		<-ended
	}()
	eventually(t, "the flood is dropped here", func() bool { return r.PacketsDropped(flooded) > 0 })

	for i := range 8 {
		eventually(t, fmt.Sprint("packet ", i, " of the calm class comes"), func() bool {
			a.exec(a.sends("printf calm", b)...)
			select {
			case p := <-wanted:
				if p.Class != calm || p.Port != a.port.OFPort || !bytes.HasSuffix(p.Data, []byte("calm")) {
					t.Errorf("packet %+v", p)
				}
				return true
			case <-time.After(5 * time.Second): // a busy switch may skip one
				return false
			}
		})
		r.give(drivers.Change{Set: []pipeline.Object{remote(9, uint16(i+1))}})
	}
	if dropped := r.PacketsDropped(calm); dropped != 0 {
		t.Errorf("%d packets of the calm class are dropped here", dropped)
	}
	got := r.PacketsDropped(flooded) + uint64(len(r.Packets(flooded)))
	if most := uint64(packetsInSecond * (time.Since(began).Seconds() + 2)); got > most {
		t.Errorf("%d packets of the flood reached us, the meter lets pass %d", got, most)
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+1<<20 {
		t.Errorf("%d bytes more after a flood", after.HeapAlloc-before.HeapAlloc)
	}
	if s := r.Status(); !s.Connected || !s.InSync {
		t.Errorf("status %+v", s)
	}
}

func TestAPacketIsSentToAPod(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a := n.newPod(r, 1)
	packet := openflow.PacketOut{Actions: []openflow.Action{openflow.Output{Port: a.port.OFPort}}, Data: make([]byte, 60)}
	received := func() string { return a.exec("cat", "/sys/class/net/eth0/statistics/rx_packets") }
	before := received()
	eventually(t, "the packet is sent", func() bool { return r.Send(patience(t), packet) == nil })
	eventually(t, "the packet has come", func() bool { return received() != before })
	packet.Actions = []openflow.Action{openflow.OutputGroup{ID: 99}}
	if err := r.Send(patience(t), packet); !fault.Is(err, fault.Invalid) {
		t.Errorf("to a group that does not exist: %v", err)
	}
	n.KillVswitchd()
	eventually(t, "nothing is sent without a switch", func() bool { return fault.Is(r.Send(patience(t), packet), fault.Unavailable) })
}
