package e2e

import (
	"fmt"
	"regexp"
	"strconv"
)

// unread tells, by node and port, how many packets found no room in the socket from which
// the switch reads the port, since that was opened. Of a switch in user space that is what
// a machine loses that is too busy to let it read.
func (s story) unread() map[string]int {
	s.Helper()
	packets := map[string]int{}
	for _, n := range s.bed.Nodes {
		sockets, err := n.Run(s.ctx, "ss", "-0", "-mHn")
		s.must(err)
		for _, socket := range portSocket.FindAllStringSubmatch(sockets, -1) {
			if packets[n.Name+" "+socket[1]], err = strconv.Atoi(socket[2]); err != nil {
				s.Fatal(fmt.Errorf("%s: %q: %w", n.Name, socket[0], err))
			}
		}
	}
	return packets
}

// portSocket is a packet socket of an interface, and how much it dropped, as ss shows it.
var portSocket = regexp.MustCompile(`(?m)^p_raw\s.*:(\S+)\s+\*\s+skmem:\(.*,d(\d+)\)`)

// tellUnread logs what became unread meanwhile.
func (s story) tellUnread(before map[string]int) {
	s.Helper()
	for port, packets := range s.unread() {
		if grown := packets - before[port]; grown > 0 {
			s.Logf("%d packets of %s were not read in time by the switch, which had no room for more", grown, port)
		}
	}
}
