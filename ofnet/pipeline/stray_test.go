package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// Fragments of a packet whose others never come are given back by the connection tracker with
// somebody else's packet, seconds later. Nobody gets them, least of all another tenant.
func TestLongStrayFragmentsReachNobody(t *testing.T) {
	testkit.TakesLong(t)
	server := endpoint("red3", webRed, 3, 0)
	for _, scene := range []struct {
		name  string
		red   Tiers
		asked bool // by a service
	}{{"beside tracked connections", Tracked, false}, {"beside connections to a service", 0, true}} {
		t.Run(scene.name, func(t *testing.T) {
			c := startCluster(t, web1, red1, server)
			for e, tiers := range map[string]Tiers{web1.ID: Tracked, red1.ID: scene.red, server.ID: scene.red} {
				c.pods[e].Tiers = tiers
			}
			shop := serving(FromPods, addressesOf(server), vip)
			shop.ID, shop.VRF, shop.Tag = "shop:red", redVRF, webRed.Tag
			n := c.pod(server).node
			n.replace(t, c.wants(n, Epoch{Number: 1}, shop.Numbered(noneTaken)).chosen())

			const lists = 12
			wire := c.pod(web1).wire()
			for i := range lists {
				frame := udpFrame(AnycastMAC, web1.MAC, server.IPv4, web1.IPv4, strings.Repeat("x", 2000)+"stray")
				frame[19] = byte(1 + i) // of the datagram
				for _, part := range fragments(frame, probeMTU)[1:] {
					wire.send(part)
				}
			}
			receiver, at, port := c.pod(server).wire(), server.IPv4, uint16(5353)
			if scene.asked {
				at, port = vip, 53
			}
			c.pod(server).datagrams(5353)
			sender, fence, strays := c.pod(red1).wire(), 0, 0
			testkit.Eventually(t, soon, "all fragments are given back", func() bool {
				for range 5 {
					client := c.pod(red1).datagrams(0) // of a connection of its own
					if _, err := client.WriteToUDPAddrPort([]byte("ordinary"), netip.AddrPortFrom(at, port)); err != nil {
						t.Fatal(err)
					}
					_ = client.Close()
				}
				fence++ // read all of it each time: the socket has room for some hundred
				text := fmt.Sprintf("fence %d.", fence)
				sender.send(udpFrame(AnycastMAC, red1.MAC, server.IPv4, red1.IPv4, text))
				strays += receiver.got(text, "stray")
				return strings.Contains(n.Appctl("dpctl/ipf-get-status"), fmt.Sprintf("v4 frags expired: %d", lists))
			})
			if strays != 0 {
				t.Errorf("%d of %d stray fragments reach another tenant", strays, lists)
			}
		})
	}
}
