package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
)

// badNeighbour is a configured neighbour of a node that gets no session.
type badNeighbour struct {
	address string
	as      int    // as configured at the node
	config  string // of BIRD there; empty: it does not run
	told    string // the reason in the report
}

// Addresses of machines that are not proper neighbours.
const (
	noRouter = "198.18.5.24" // nobody listens there
	babbler  = "198.18.5.25"
	hanging  = "198.18.5.26" // accepts connections, and says nothing
)

var badNeighbours = []badNeighbour{
	{"198.18.5.20", routerAS + 9, "neighbor 198.18.5.11 as 65001;", "it is of another AS"},
	{"198.18.5.21", routerAS, "neighbor 198.18.5.11 as 65009;", "it refuses this node, as one does that knows it by another AS"},
	{"198.18.5.22", routerAS, `neighbor 198.18.5.11 as 65001; password "another";`, "it is out of reach, or has another password"},
	{"198.18.5.23", routerAS, "", "no route to host"},
	{noRouter, routerAS, "", "connection refused"},
	{babbler, routerAS, "", "what it says is no BGP"},
	{hanging, routerAS, "", "it has accepted a connection, and says nothing"},
}

// speaker returns BIRD as the bad neighbour's router.
func (b badNeighbour) speaker() outsideRouter {
	return outsideRouter{
		name: "bird",
		config: fmt.Sprintf(`
router id %[1]s;
protocol device {}
protocol bgp { local %[1]s as %[2]d; strict bind yes; %[3]s connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 { import none; export none; }; }
`, b.address, routerAS, b.config),
		start: [][]string{{"bird", "-f", "-c", "{config}", "-s", "/run/" + b.address + ".ctl", "-P", "/run/" + b.address + ".pid"}},
	}
}

// failingSessionsAreNamed has a node speak with one correct router and with many faulty ones. A client that
// connects to the node's own port and sends what is no BGP disturbs no session.
func failingSessionsAreNamed(s story) {
	s.makeWorld()
	machine, node := s.makeSecond(), s.bed.Nodes[0]
	good := birdOf(9*time.Second, "", 65001)
	s.run(good)
	neighbours := []string{}
	for _, b := range badNeighbours {
		neighbours = append(neighbours, fmt.Sprintf("'%s=%d'", b.address, b.as))
		if !strings.Contains(b.told, "no route") {
			_, err := machine.Run(s.ctx, "ip", "address", "add", b.address+"/24", "dev", "eth0")
			s.must(err)
		}
		if b.config != "" {
			s.runAt(machine, b.speaker())
		}
	}
	s.accepts(babbler, func(conn net.Conn) {
		_, _ = io.CopyN(conn, rand.Reader, garbageSize) // the node may have closed it already
	})
	s.accepts(hanging, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn) // until the node ends it
	})
	s.netctlForNow("apply -f "+s.speaks(0, good, ""), "bgp rm "+node.Name)
	s.tenant("blue")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe routed", "network rm -t blue routed")
	pod := s.pod(0, "a", "blue", "routed", "")
	s.echoesOutside(s.beyond("world"))
	flows := calmly(both("world4", pod, world4), both("world6", pod, world6))
	for _, f := range flows {
		s.soon(shortly, func() error { return pingsWorld(s.ctx, pod, f.to.String()) })
	}
	s.soon(shortly, s.allIsWell)
	before, err := os.ReadFile(node.LogFile("netplugin")) // of other chapters, too
	s.must(err)

	reports := s.whileFlowing(flows, func() {
		s.netctl("apply", "-f", s.speaks(0, good, ", neighbors: ["+strings.Join(neighbours, ", ")+"]"))
		for _, b := range badNeighbours {
			s.isNamed(b)
		}
		for range 20 {
			s.garbage("/proc/1/ns/net", routerAddress)
			s.garbage(second, secondAddress)
			s.garbage(second, noRouter)
		}
		s.inLog("somebody who is no BGP neighbour", "address="+secondAddress)
		s.isNamed(badNeighbours[0]) // the speaker still runs

		right := fmt.Sprintf(", neighbors: ['%s=%d']", badNeighbours[0].address, routerAS)
		s.netctl("apply", "-f", s.speaks(0, good, right))
		s.checks(node, "bgp", true, "2 neighbours")
		s.soon(shortly, s.allIsWell)
	})
	for i, r := range reports {
		if r.Lost != 0 || r.Sent == 0 {
			s.Errorf("of %d datagrams to %s %d were lost", r.Sent, flows[i].to, r.Lost)
		}
	}
	log, err := os.ReadFile(node.LogFile("netplugin"))
	s.must(err)
	for line := range strings.Lines(string(log[len(before):])) {
		if strings.Contains(line, "BGP neighbour is gone") && strings.Contains(line, "neighbour="+routerAddress) {
			s.Errorf("the session with the right neighbour has ended: %s", line)
		}
	}
}

const (
	bgpPort = 179
	second  = "/run/netns/second" // where its network is, on the machine outside
	// garbageSize is how many bytes are sent that are no BGP.
	garbageSize = 10_000
	// checkFailed is the exit code of netctl check when something is wrong.
	checkFailed = 9
)

// accepts has hears serve the connections to an address of the second machine, until the story is over.
func (s story) accepts(address string, hears func(net.Conn)) {
	s.Helper()
	var l net.Listener
	s.must(s.bed.Outside.InNetns(second, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("%s:%d", address, bgpPort))
		return err
	}))
	var hearing sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	hearing.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			hearing.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(over, func() { conn.Close() })()
				hears(conn)
			})
		}
	})
	s.afterwards(func(context.Context) error {
		defer hearing.Wait()
		end()
		return l.Close()
	})
}

// garbage connects to the first node from an address of a network of the machine outside, and sends what is no
// BGP, until the node closes the connection.
func (s story) garbage(network, from string) {
	s.Helper()
	var conn net.Conn
	s.must(s.bed.Outside.InNetns(network, func() (err error) {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), Timeout: shortly}
		conn, err = dialer.DialContext(s.ctx, "tcp", fmt.Sprintf("%s:%d", nodeAddress(0), bgpPort))
		return err
	}))
	defer conn.Close()
	_, _ = io.CopyN(conn, rand.Reader, garbageSize)
	s.must(conn.SetReadDeadline(time.Now().Add(shortly)))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		s.Errorf("%s says what is no BGP, and the node waits for more", from)
	}
}

// isNamed waits until inspection, check and the node's log name a neighbour without a session, and the reason.
func (s story) isNamed(b badNeighbour) {
	s.Helper()
	node := s.bed.Nodes[0]
	took := s.soon(shortly, func() error {
		out, err := s.bed.Netctl(s.ctx, "bgp", "inspect", node.Name)
		var view contivmodel.BgpInspect
		if err == nil {
			err = json.Unmarshal([]byte(out), &view)
		}
		if err != nil {
			return err
		}
		for _, n := range view.Oper.Neighbors {
			if n.Address == b.address && n.Status != "established" && strings.Contains(n.LastError, b.told) {
				return nil
			}
		}
		return fmt.Errorf("netctl bgp inspect: want %s: %q, got %+v", b.address, b.told, view.Oper.Neighbors)
	})
	s.soon(shortly, func() error {
		out, err := s.bed.Netctl(s.ctx, "check")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != checkFailed {
			return fmt.Errorf("netctl check: %w %s", err, out)
		}
		for part := range strings.SplitSeq(out, ";") {
			if strings.Contains(part, fmt.Sprintf("no session with %s of AS %d: ", b.address, b.as)) && strings.Contains(part, b.told) {
				return nil
			}
		}
		return fmt.Errorf("netctl check: want %s: %q, got %s", b.address, b.told, out)
	})
	s.inLog(b.told, "neighbour="+b.address)
	s.Logf("%s: %s, told after %s", b.address, b.told, took.Round(10*time.Millisecond))
}

// inLog waits until one line of the first node's log has all of these.
func (s story) inLog(words ...string) {
	s.Helper()
	file := s.bed.Nodes[0].LogFile("netplugin")
	s.soon(shortly, func() error {
		log, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			missing := false
			for _, word := range words {
				missing = missing || !strings.Contains(line, word)
			}
			if !missing && (strings.Contains(line, "level=warning") || strings.Contains(line, "level=error")) {
				return nil
			}
		}
		return fmt.Errorf("%s has no line with %q", file, words)
	})
}
