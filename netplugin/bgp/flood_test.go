package bgp_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	wire "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/test/bgppeer"
	"github.com/contiv/netplugin/test/testkit"
)

// The changes of neighbours are not limited, and the library queues those that we have not processed: the queue
// must not grow for ever.
func TestLongNeighboursAreReadAsFastAsTheirChangesAreTakenIn(t *testing.T) {
	testkit.TakesLong(t)
	const (
		flooders = 8
		routes   = 2000 // of each
		span     = 10 * time.Second
		most     = 80 << 20 // bytes, of all that waits
	)
	port := netip.MustParseAddrPort(testkit.FreeAddress()).Port()
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	for _, memory := range []string{"tcp_rmem", "tcp_wmem"} { // what waits in the kernel is looked at by nobody
		run(t, "sysctl", "-qw", "net.ipv4."+memory+"=4096 32768 32768")
	}
	us := netip.AddrPortFrom(addr("127.0.0.2"), port)
	s, log, _ := start(t, bgp.Config{Port: port})
	settings := &bgp.Settings{AS: ourAS, Router: us.Addr()}
	settings.Neighbours = []bgp.Neighbour{{Address: quiet, AS: theirAS, HoldTime: 3 * time.Second}}
	for i := range flooders {
		settings.Neighbours = append(settings.Neighbours, bgp.Neighbour{Address: flooder(i), AS: theirAS})
	}
	s.Configure(settings)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	meet := func(own netip.Addr) (p *bgppeer.Peer) {
		if err := testkit.Poll(ctx, func() (err error) { p, err = bgppeer.Meet(ctx, own, theirAS, us); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	var peers []*bgppeer.Peer
	for i := range flooders {
		peers = append(peers, meet(flooder(i)))
	}
	isThere(t, meet(quiet))
	eventually(t, "all sessions", func() bool { return s.Counts().Sessions == flooders+1 })

	before, highest := heap(), uint64(0)
	until := time.Now().Add(span)
	var flood sync.WaitGroup
	for i, p := range peers {
		announced, withdrawn := updates(t, i, routes)
		flood.Go(func() {
			for time.Now().Before(until) {
				if err := p.Say(append(announced, withdrawn...)...); err != nil {
					t.Error(err)
					return
				}
			}
			if err := p.Say(announced...); err != nil {
				t.Error(err)
			}
		})
	}
	for tick := time.NewTicker(time.Second); time.Now().Before(until); {
		<-tick.C
		highest = max(highest, heap())
	}
	if s.Status(quiet).SessionState != bgp.Established {
		t.Errorf("a neighbour that changes nothing: %+v", s.Status(quiet))
	}
	flood.Wait()
	begun := time.Now()
	testkit.Eventually(t, 4*patience, "all is taken in that was said last", func() bool { return s.Counts().Learned == flooders*routes })
	t.Logf("heap %d MB before, %d MB at most, all taken in %s after the last word", before>>20, highest>>20, time.Since(begun).Round(time.Millisecond))
	if highest > before+most {
		t.Errorf("%d MB waited, want %d at most", (highest-before)>>20, most>>20)
	}
	for i := range flooders {
		if s.Status(flooder(i)).SessionState != bgp.Established {
			t.Errorf("%s: %+v", flooder(i), s.Status(flooder(i)))
		}
	}
	if !logged(log, "one of them changes most") || !logged(log, "neighbour=127.0.1.") {
		t.Error("nobody is told who changes so much")
	}
}

var quiet = addr("127.0.0.3")

// isThere has a neighbour send a keepalive each half second, and nothing else, until the test ends.
func isThere(t *testing.T, p *bgppeer.Peer) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second / 2)
		defer tick.Stop()
		for p.Say(wire.NewBGPKeepAliveMessage()) == nil {
			<-tick.C
		}
	}()
	t.Cleanup(func() {
		_ = p.Close()
		<-ended
	})
}

func flooder(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}) }

// updates returns a neighbour's messages that announce so many routes, and those that withdraw them.
func updates(t *testing.T, neighbour, routes int) (announced, withdrawn []*wire.BGPMessage) {
	t.Helper()
	next, err := wire.NewPathAttributeNextHop(flooder(neighbour))
	if err != nil {
		t.Fatal(err)
	}
	attributes := []wire.PathAttributeInterface{wire.NewPathAttributeOrigin(wire.BGP_ORIGIN_ATTR_TYPE_IGP),
		wire.NewPathAttributeAsPath([]wire.AsPathParamInterface{wire.NewAsPathParam(wire.BGP_ASPATH_ATTR_TYPE_SEQ, []uint16{theirAS})}), next}
	const inOne = 500
	for from := 0; from < routes; from += inOne {
		var list []wire.PathNLRI
		for j := from; j < min(from+inOne, routes); j++ {
			a := binary.BigEndian.AppendUint32(nil, uint32(100<<24+neighbour<<16+j))
			nlri, err := wire.NewIPAddrPrefix(netip.PrefixFrom(netip.AddrFrom4([4]byte(a)), 32))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, wire.PathNLRI{NLRI: nlri})
		}
		announced = append(announced, wire.NewBGPUpdateMessage(nil, attributes, list))
		withdrawn = append(withdrawn, wire.NewBGPUpdateMessage(list, nil, nil))
	}
	return announced, withdrawn
}
