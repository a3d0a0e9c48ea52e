package pipeline

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// After a change ovs-vswitchd looks at the flows of the datapath one after the other. What the
// first of them has found out about a packet may be old when the last one is new already: then the
// connection must not count as admitted by the new rules.
func TestWhatOldFlowsHaveClassifiedIsNotAdmittedForGood(t *testing.T) {
	c := startCluster(t, web1, db1)
	n := c.pod(web1).node
	server := c.pod(db1).datagrams(5353)
	buffer := make([]byte, 100)
	tracked := map[string]Tiers{web1.ID: Tracked, db1.ID: Tracked}
	for _, scene := range []struct {
		name     string
		at       netip.AddrPort
		isolated Endpoint
	}{
		{"the receiver is isolated", netip.AddrPortFrom(db1.IPv4, 5353), db1},
		{"the sender is isolated", netip.AddrPortFrom(db1.IPv4, 5353), web1},
		{"the client of a service is isolated", netip.AddrPortFrom(vip, 53), web1},
	} {
		t.Run(scene.name, func(t *testing.T) {
			wants := func(tiers map[string]Tiers) Wants {
				c.epoch++
				c.classify(tiers)
				return c.wants(n, Epoch{Number: c.epoch}, serving(FromPods, addressesOf(db1), vip)).chosen()
			}
			n.replace(t, wants(tracked))
			client := c.pod(web1).datagrams(0)
			says := func() {
				if _, err := client.WriteToUDPAddrPort([]byte(scene.name), scene.at); err != nil {
					t.Fatal(err)
				}
			}
			says()
			asker := heard(t, server, buffer)
			if _, err := server.WriteToUDPAddrPort([]byte("answer"), asker); err != nil {
				t.Fatal(err)
			}
			heard(t, client, buffer)
			says() // of an established connection
			heard(t, server, buffer)

			n.Appctl("revalidator/pause")
			resumed := false
			resume := func() {
				if !resumed {
					n.Appctl("revalidator/resume")
				}
				resumed = true
			}
			defer resume()
			n.write(t, wants(map[string]Tiers{web1.ID: Tracked, db1.ID: Tracked, scene.isolated.ID: isolated}))
			n.forgetLaterPasses(t)
			says()
			heard(t, server, buffer) // as it was classified before
			resume()
			n.forget()
			if says(); next(server, never) != nil {
				t.Errorf("a denied connection goes on: %s", n.Appctl("dpctl/dump-conntrack"))
			}
		})
	}
}

// heard waits for a datagram and returns its sender.
func heard(t *testing.T, at *net.UDPConn, buffer []byte) netip.AddrPort {
	t.Helper()
	if err := at.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	_, from, err := at.ReadFromUDPAddrPort(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// forgetLaterPasses takes from the datapath all flows of packets that the connection tracker has
// given back.
func (n *node) forgetLaterPasses(t *testing.T) {
	t.Helper()
	gone := 0
	for flow := range strings.Lines(n.Appctl("dpctl/dump-flows", "-m")) {
		id, _, _ := strings.Cut(flow, ",")
		if strings.HasPrefix(id, "ufid:") && !strings.Contains(flow, "recirc_id(0)") {
			n.Appctl("dpctl/del-flow", id)
			gone++
		}
	}
	if gone == 0 {
		t.Fatal("no packet has been tracked")
	}
}
