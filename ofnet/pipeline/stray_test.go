package pipeline

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// When fragments of a packet remain incomplete, the connection tracker returns them seconds later together with
// another packet. They must be dropped, and above all not reach another tenant.
func TestLongStrayFragmentsReachNobody(t *testing.T) {
	testkit.TakesLong(t)
	server := endpoint("red3", webRed, 3, 0)
	for _, scene := range []struct {
		name  string
		red   Tiers
		asked bool // through a service
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

			c.pod(web1).wire().halves(udpFrame(AnycastMAC, web1.MAC, server.IPv4, web1.IPv4, strings.Repeat("x", 2000)+"stray"))
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
				return n.hasReturned(halves)
			})
			if strays != 0 {
				t.Errorf("%d of %d stray fragments reach another tenant", strays, halves)
			}
		})
	}
}

// Fragmented packets of a host to an endpoint are translated by the tracker, and continue in table DEST.
func TestLongStrayFragmentsDoNotComeInWithTheHosts(t *testing.T) {
	testkit.TakesLong(t)
	server := knownOutside(endpoint("red3", webRed, 3, 0))
	c := startCluster(t, web1, red1, server)
	c.pods[web1.ID].Tiers = Tracked
	host := c.withOutside(server)
	n := c.pod(server).node

	// Since the endpoints' addresses are equal, so are their MACs.
	c.pod(web1).wire().halves(udpFrame(server.MAC, web1.MAC, server.IPv4, web1.IPv4, strings.Repeat("x", 2000)+"stray"))
	receiver, sender, fence, strays := c.pod(server).wire(), c.pod(red1).wire(), 0, 0
	c.pod(server).datagrams(5353)
	at := netip.AddrPortFrom(c.outsideAddress(server, server.IPv4), 5353)
	testkit.Eventually(t, soon, "all fragments are given back", func() bool {
		for range 5 {
			client := host.datagrams(0)
			if _, err := client.WriteToUDPAddrPort(make([]byte, 4000), at); err != nil {
				t.Fatal(err)
			}
			_ = client.Close()
		}
		fence++
		text := fmt.Sprintf("fence %d.", fence)
		sender.send(udpFrame(AnycastMAC, red1.MAC, server.IPv4, red1.IPv4, text))
		strays += receiver.got(text, "stray")
		return n.hasReturned(halves)
	})
	if strays != 0 {
		t.Errorf("%d of %d stray fragments reach another tenant", strays, halves)
	}
}

// A table to which the tracker returns packets must drop fragments that it returns with another packet.
func TestStraysAreDroppedWhereverTheTrackerGivesPacketsBack(t *testing.T) {
	text := dump("base", node1().Base()) + wantsText(node1(), goldenObjects...) + wantsText(New(Config{UplinkPort: exampleTunnelPort}), routedWorld...)
	back := map[uint8]bool{}
	for _, found := range regexp.MustCompile(`\bct\([^()\n]*\btable=(\d+)`).FindAllStringSubmatch(text, -1) {
		table, err := strconv.ParseUint(found[1], 10, 8)
		if err != nil {
			t.Fatal(err)
		}
		back[uint8(table)] = true
	}
	if got, want := slices.Sorted(maps.Keys(back)), slices.Sorted(slices.Values(comeBack)); !slices.Equal(got, want) {
		t.Errorf("packets come back in the tables %d, strays are dropped in %d", got, want)
	}
}

// halves is the number of incomplete datagrams.
const halves = 12

// halves sends several datagrams without their first fragment.
func (w *wire) halves(frame []byte) {
	for i := range halves {
		frame[19] = byte(1 + i) // the number of the datagram
		for _, part := range fragments(frame, probeMTU)[1:] {
			w.send(part)
		}
	}
}

// hasReturned reports whether the tracker has returned so many incomplete fragments.
func (n *node) hasReturned(count int) bool {
	return strings.Contains(n.Appctl("dpctl/ipf-get-status"), fmt.Sprintf("v4 frags expired: %d", count))
}

// Members of a bridged network of which one is tracked, and those on another node.
var (
	lr3       = endpoint("lr3", lanRed, 3, 0)
	lr5       = endpoint("lr5", lanRed, 5, 0)
	behindOne = []Endpoint{lr5, lr2} // their copies of a broadcast come after that of the tracked one
)

// A broadcast is sent to the tracker for some receivers only. What the tracker adds to their copies must not reach
// others.
func TestLongStrayFragmentsDoNotFollowABroadcast(t *testing.T) {
	testkit.TakesLong(t)
	c := startCluster(t, lan1, lan2, lr1, lr2, lr3, lr5)
	c.pods[lan1.ID].Tiers, c.pods[lr3.ID].Tiers = Tracked, Tracked
	for _, n := range c.nodes {
		n.replace(t, c.wants(n, Epoch{Number: 1}))
	}
	// Endpoints with equal addresses have equal MACs: to the other tenant these are from lr1 to lr2.
	c.pod(lan1).wire().halves(udpFrame(lan2.MAC, lan1.MAC, lan2.IPv4, lan1.IPv4, strings.Repeat("x", 2000)+"stray"))

	sender, receivers := c.pod(lr1).wire(), map[string]*wire{}
	for _, e := range behindOne {
		receivers[e.ID] = c.pod(e).wire()
	}
	fence, strays := 0, map[string]int{}
	ask := func() {
		fence++
		text := fmt.Sprintf("fence %d.", fence)
		sender.send(udpFrame(broadcast, lr1.MAC, addr("10.1.4.255"), lr1.IPv4, text))
		for id, w := range receivers {
			strays[id] += w.got(text, "stray")
		}
	}
	testkit.Eventually(t, soon, "all fragments are given back", func() bool {
		ask()
		return c.pod(lr1).node.hasReturned(halves)
	})
	ask() // what arrived after the last fence
	for id, got := range strays {
		if got != 0 {
			t.Errorf("%d of %d stray fragments reach %s of another tenant", got, halves, id)
		}
	}
}

// The datapath must not act on a packet after a ct() in the same pass: stray fragments would be treated like it.
func TestNothingFollowsTheTrackerInAPass(t *testing.T) {
	c := startCluster(t, lr1, lr2, lr3, lr5)
	n, members := c.pod(lr1).node, []Endpoint{lr1, lr3, lr5}
	everybody := addr("10.1.4.255")
	for _, tracked := range [][]Endpoint{{lr3}, {lr1}, {lr3, lr5}, members} {
		for _, e := range members {
			c.pods[e.ID].Tiers = 0
			if slices.Contains(tracked, e) {
				c.pods[e.ID].Tiers = Tracked
			}
		}
		n.replace(t, c.wants(n, Epoch{Number: 1}))
		passes := 0
		for _, p := range []packet{
			{inPort: c.pod(lr1).port, src: lr1.MAC, dst: broadcast, from: lr1.IPv4, to: everybody},
			{inPort: c.pod(lr1).port, src: lr1.MAC, dst: lr3.MAC, from: lr1.IPv4, to: lr3.IPv4},
			{inPort: exampleTunnelPort, vni: lanRed.VNI, src: lr2.MAC, dst: broadcast, from: lr2.IPv4, to: everybody},
		} {
			trace := n.Appctl("ofproto/trace", bridge, p.String())
			for line := range strings.Lines(trace) {
				actions, ok := strings.CutPrefix(line, "Datapath actions: ")
				if !ok || !strings.Contains(actions, "ct(") {
					continue
				}
				passes++
				if behind := behindTracker(strings.TrimSpace(actions)); behind != "" {
					t.Errorf("%d are tracked, %s: %s follows the tracker: %s", len(tracked), p, behind, actions)
				}
			}
		}
		if passes == 0 {
			t.Errorf("%d are tracked: no packet is given to the tracker", len(tracked))
		}
	}
}

// behindTracker returns the actions of the datapath after the first ct() and its recirculation that are in no
// clone.
func behindTracker(actions string) string {
	depth := 0
	for i, c := range actions {
		switch {
		case depth == 0 && strings.HasPrefix(actions[i:], "ct("):
			behind := behindParentheses(actions[i:])
			if strings.HasPrefix(behind, "recirc(") {
				behind = behindParentheses(behind)
			}
			return behind
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
	}
	return ""
}

// behindParentheses returns the actions after the first one, which has parentheses.
func behindParentheses(actions string) string {
	depth := 0
	for i, c := range actions {
		if c == '(' {
			depth++
		} else if c == ')' {
			if depth--; depth == 0 {
				return strings.TrimPrefix(actions[i+1:], ",")
			}
		}
	}
	return ""
}

// nothingFollowsTheTracker checks the flows of the datapath.
func (n *node) nothingFollowsTheTracker(t *testing.T) {
	t.Helper()
	for flow := range strings.Lines(n.Appctl("dpctl/dump-flows")) {
		_, actions, _ := strings.Cut(strings.TrimSpace(flow), "actions:")
		if behind := behindTracker(actions); behind != "" {
			t.Errorf("%s follows the tracker: %s", behind, flow)
		}
	}
}
