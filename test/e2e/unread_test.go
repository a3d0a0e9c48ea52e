package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// portSocket is a packet socket from which a switch reads a port.
type portSocket struct{ node, port, id string }

// unread tells how many packets found no room in the sockets from which switches read their
// ports, since these were opened. Of a switch in user space that is what a machine loses that
// is too busy to let it read.
func (s story) unread() map[portSocket]int {
	s.Helper()
	packets := map[portSocket]int{}
	for _, n := range s.bed.Nodes {
		sockets, err := n.Run(s.ctx, "ss", "-0", "-mHneO")
		s.must(err)
		s.must(addUnread(packets, n.Name, sockets))
	}
	return packets
}

// addUnread adds those of a node from what ss says of its packet sockets.
func addUnread(packets map[portSocket]int, node, sockets string) error {
	for _, line := range socketLine.FindAllStringSubmatch(sockets, -1) {
		dropped, err := strconv.Atoi(line[3])
		if err != nil {
			return fmt.Errorf("%s: %q: %w", node, line[0], err)
		}
		packets[portSocket{node, line[1], line[2]}] = dropped
	}
	return nil
}

// socketLine has the interface of a packet socket, its number, and how much it dropped.
var socketLine = regexp.MustCompile(`(?m)^p_raw\s.*:(\S+)\s+\*\s+ino:(\d+)\s.*skmem:\(.*,d(\d+)\)`)

// grown is how many packets became unread meanwhile, by node and port. A socket that was
// opened meanwhile, as by a switch that was started again, counts from zero.
func grown(before, now map[portSocket]int) map[string]int {
	packets := map[string]int{}
	for socket, dropped := range now {
		if more := dropped - before[socket]; more > 0 {
			packets[socket.node+" "+socket.port] += more
		}
	}
	return packets
}

// tellUnread logs what became unread meanwhile.
func (s story) tellUnread(before map[portSocket]int) {
	s.Helper()
	for port, packets := range grown(before, s.unread()) {
		s.Logf("%d packets of %s were not read in time by the switch, which had no room for more", packets, port)
	}
}

// The socket of a switch that was started again had dropped 163 packets, and that of the switch
// before it 108: 55 were told, and the rest seemed to be lost without a reason.
func TestWhatASwitchDidNotReadIsCountedByItsOwnSocket(t *testing.T) {
	const ofPort = "p_raw 0      0        *:%s   * ino:%d sk:2009 skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d%d)     \n"
	before, now := map[portSocket]int{}, map[portSocket]int{}
	for _, socket := range []struct {
		at      map[portSocket]int
		port    string
		number  int
		dropped int
	}{{before, "eth1", 7, 108}, {before, "vvport8", 8, 125}, {now, "eth1", 9, 163}, {now, "vvport8", 8, 126}} {
		if err := addUnread(socket.at, "node2", fmt.Sprintf(ofPort, socket.port, socket.number, socket.dropped)); err != nil {
			t.Fatal(err)
		}
	}
	got, want := grown(before, now), map[string]int{"node2 eth1": 163, "node2 vvport8": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("not read were %v, want %v", got, want)
	}
}
