package pipeline

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/utils/inet"
)

// talkOver is a TCP connection between two pods.
type talkOver struct{ client, server net.Conn }

func (c *cluster) connect(from, to Endpoint, port uint16) talkOver {
	c.t.Helper()
	return c.calls(from, c.pod(to), to.IPv4, port)
}

func (c *cluster) calls(from Endpoint, server *pod, at netip.Addr, port uint16) talkOver {
	c.t.Helper()
	place := netip.AddrPortFrom(at, port)
	return c.callsAt(c.pod(from), net.Dialer{Timeout: soon}, place, server, place)
}

// callsAt connects with a dialer to an address at which the server is reached; the server listens at another one.
func (c *cluster) callsAt(client *pod, dialer net.Dialer, reached netip.AddrPort, server *pod, listens netip.AddrPort) talkOver {
	c.t.Helper()
	var listener net.Listener
	var talk talkOver
	err := server.inside(func() (err error) {
		listener, err = net.Listen("tcp", listens.String())
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	defer listener.Close()
	err = client.inside(func() (err error) {
		talk.client, err = dialer.Dial("tcp", reached.String())
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if talk.server, err = listener.Accept(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _, _ = talk.client.Close(), talk.server.Close() })
	return talk
}

// says reports whether a byte that one end sends arrives at the other, after those that were lost before.
func says(word byte, from, to net.Conn, patience time.Duration) bool {
	_ = to.SetReadDeadline(time.Now().Add(patience))
	if _, err := from.Write([]byte{word}); err != nil {
		return false
	}
	for heard := []byte{0}; ; {
		if _, err := io.ReadFull(to, heard); err != nil || heard[0] == word {
			return err == nil
		}
	}
}

// Either end may send first after a change.
func TestConnectionsAreJudgedAnewWhenTheRulesChange(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	both := map[string]Tiers{web1.ID: isolated, db2.ID: isolated, db1.ID: isolated}
	rules := []TierRule{allowing(true, classWeb1), allowing(false, classDB2, withPeers(classWeb1)), allowing(false, classDB1, withPeers(classWeb1))}
	c.judge(both, rules...)
	var talks []talkOver
	for i, to := range []Endpoint{db1, db2, db1, db2} {
		talks = append(talks, c.connect(web1, to, 7000+uint16(i)))
	}
	clientFirst := func(i int) (from, to net.Conn) {
		if i < 2 {
			return talks[i].client, talks[i].server
		}
		return talks[i].server, talks[i].client
	}
	var word byte
	try := func(when string, want bool) {
		t.Helper()
		word++
		var all sync.WaitGroup
		for i := range talks {
			all.Go(func() {
				patience := never
				if want {
					patience = soon
				}
				from, to := clientFirst(i)
				if got := says(word, from, to, patience); got != want {
					t.Errorf("%s, connection %d: %v, want %v", when, i, got, want)
				}
			})
		}
		all.Wait()
	}
	try("admitted", true)
	c.judge(both, rules...)
	try("another epoch, the same rules", true)
	c.judge(both, rules[1:]...) // web1 may not open new connections any more
	try("the sender's rule has gone", false)
	c.judge(both, rules...)
	try("it is back", true) // what was lost is retransmitted
	c.judge(both, rules[0])
	try("the receivers' rules have gone", false)
}

// Either end may send first after the change.
func TestPeersOfBegunConnectionsKeepThemAndGetNoOthers(t *testing.T) {
	c := startCluster(t, web1, db2)
	tiers := map[string]Tiers{web1.ID: JudgesOut | IsolatesOut}
	peers := []netip.Prefix{inet.Host(db2.IPv4), inet.Host(db2.IPv6)}
	server := c.pod(db2)
	c.judge(tiers, allowing(true, classWeb1, withNets(peers...)))
	var talks []talkOver
	for i, at := range []netip.Addr{db2.IPv4, db2.IPv6, db2.IPv4, db2.IPv6} {
		talks = append(talks, c.calls(web1, server, at, 7000+uint16(i)))
	}
	server.serve(80)
	c.judge(tiers, allowing(true, classWeb1, withNets(), func(r *TierRule) { r.Begun = peers }))
	for i, talk := range talks {
		from, to := talk.client, talk.server
		if i < 2 {
			from, to = to, from
		}
		if !says(1, from, to, soon) || !says(2, to, from, soon) {
			t.Errorf("connection %d has ended", i)
		}
	}
	for _, at := range []netip.Addr{db2.IPv4, db2.IPv6} {
		if c.pod(web1).connects(at, 80, false) {
			t.Errorf("a connection to %s begins", at)
		}
	}
	c.judge(tiers)
	if says(3, talks[0].client, talks[0].server, never) {
		t.Error("without the rule the connection goes on")
	}
}
