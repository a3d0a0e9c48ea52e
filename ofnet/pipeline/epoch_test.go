package pipeline

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// After a change ovs-vswitchd revalidates the flows of the datapath one after the other. A packet may be
// classified by an old flow of the first pass and meet a new one of the last: the connection must then not count
// as admitted by the new rules.
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
			if n.forgetLaterPasses() == 0 {
				t.Fatal("no packet has been tracked")
			}
			says()
			heard(t, server, buffer) // by its old class
			resume()
			n.forget()
			if says(); next(server, never) != nil {
				t.Errorf("a denied connection goes on: %s", n.Appctl("dpctl/dump-conntrack"))
			}
		})
	}
}

// A receiver gets another class, and a rule for that class denies the same. Packets that an old flow classifies
// meanwhile are denied by the rule for the old class, as long as that exists.
func TestWhatOldFlowsHaveClassifiedIsDeniedByTheRuleBefore(t *testing.T) {
	c := startCluster(t, web1, db1)
	n := c.pod(web1).node
	server, client := c.pod(db1).datagrams(5353), c.pod(web1).datagrams(0)
	const another = classDB1 + 100
	wants := func(class uint16, denied ...uint16) Wants {
		c.epoch++
		c.classify(map[string]Tiers{web1.ID: Tracked, db1.ID: JudgesIn | Tracked})
		c.pod(db1).Class = class
		objects := []Object{Epoch{Number: c.epoch}}
		for i, of := range denied {
			objects = append(objects, TierRule{ID: fmt.Sprint(of), Number: uint32(i + 1), Rank: uint16(i), Verdict: Deny, Subjects: []uint16{of}, AnyPeer: true})
		}
		return c.wants(n, objects...).chosen()
	}
	passes := func(within time.Duration) bool {
		if _, err := client.WriteToUDPAddrPort([]byte("?"), netip.AddrPortFrom(db1.IPv4, 5353)); err != nil {
			t.Fatal(err)
		}
		return next(server, within) != nil
	}
	n.replace(t, wants(classDB1, classDB1))
	if passes(never) {
		t.Fatal("what is denied passes")
	}
	testkit.Eventually(t, soon, "the datapath has flows of both passes", func() bool { // for the first packet it may get only one
		passes(0)
		return len(n.laterPasses()) > 0
	})
	n.Appctl("revalidator/pause")
	defer n.Appctl("revalidator/resume")
	n.write(t, wants(another, classDB1, another))
	n.forgetLaterPasses()
	if passes(never) {
		t.Error("what is denied before and after passes meanwhile")
	}
	n.write(t, wants(another, another))
	n.forgetLaterPasses()
	if !passes(soon) { // otherwise this test shows nothing
		t.Error("an old flow has not classified it")
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

// forgetLaterPasses deletes the datapath's flows for packets returned by the connection tracker, and returns their
// number. While revalidators pause, ovs-vswitchd may create no new ones.
func (n *node) forgetLaterPasses() (gone int) {
	for _, id := range n.laterPasses() {
		n.Appctl("dpctl/del-flow", id)
		gone++
	}
	return gone
}

func (n *node) laterPasses() (ids []string) {
	for flow := range strings.Lines(n.Appctl("dpctl/dump-flows", "-m")) {
		id, _, _ := strings.Cut(flow, ",")
		if strings.HasPrefix(id, "ufid:") && !strings.Contains(flow, "recirc_id(0)") {
			ids = append(ids, id)
		}
	}
	return ids
}

// Many connections continue while isolation is switched on and off: while everything is denied, none of them may
// be admitted, whichever flow of the datapath is revalidated first.
func TestLongNothingIsAdmittedWhileEverythingIsDenied(t *testing.T) {
	testkit.TakesLong(t)
	c := startCluster(t, web1, db1)
	n := c.pod(web1).node
	free := map[string]Tiers{web1.ID: Tracked, db1.ID: Tracked}
	none := map[string]Tiers{web1.ID: isolated, db1.ID: isolated}
	c.judge(free)
	ctx, stop := context.WithCancel(t.Context())
	var talks sync.WaitGroup
	defer talks.Wait()
	defer stop()
	for i := range 40 {
		ends := []Endpoint{web1, db1}
		from, to := ends[i%2], ends[1-i%2]
		server, client := c.pod(to).datagrams(uint16(6000+i)), c.pod(from).datagrams(0)
		at := netip.AddrPortFrom(to.IPv4, uint16(6000+i))
		talks.Go(func() {
			for buffer := make([]byte, 100); ctx.Err() == nil; {
				_ = server.SetReadDeadline(time.Now().Add(never))
				if _, asker, err := server.ReadFromUDPAddrPort(buffer); err == nil {
					_, _ = server.WriteToUDPAddrPort(buffer[:1], asker)
				}
			}
		})
		talks.Go(func() {
			for pace := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-pace.C {
				_, _ = client.WriteToUDPAddrPort([]byte("?"), at)
			}
		})
	}
	admitted := func() int { return strings.Count(n.Appctl("dpctl/dump-conntrack"), fmt.Sprintf(",mark=%d\n", c.epoch)) }
	change := func(tiers map[string]Tiers) {
		c.epoch++
		c.classify(tiers)
		n.write(t, c.wants(n, Epoch{Number: c.epoch}).chosen())
	}
	for range 40 {
		change(free)
		testkit.Eventually(t, soon, "all connections are admitted", func() bool { return admitted() >= 40 })
		change(none)
		n.Appctl("revalidator/wait")
		n.Appctl("revalidator/wait")
		if got := admitted(); got > 0 {
			t.Errorf("%d of 40 connections are admitted in epoch %d, in which all are denied", got, c.epoch)
		}
	}
}
