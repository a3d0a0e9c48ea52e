package ovstest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Losses are packets that the kernel has thrown away: for want of room in a socket of the switch's namespace or of
// another one, and for want of room in the queue of a processor, of the whole machine. Neither is the switch's doing.
type Losses struct{ Sockets, Processors int }

// Since are those that came after earlier ones.
func (l Losses) Since(earlier Losses) Losses {
	return Losses{l.Sockets - earlier.Sockets, l.Processors - earlier.Processors}
}

func (l Losses) String() string {
	return fmt.Sprintf("the kernel has thrown away %d packets at sockets and %d at processors", l.Sockets, l.Processors)
}

// socketDrops is what ss says of a socket.
var socketDrops = regexp.MustCompile(`skmem:\([^)]*,d(\d+)\)`)

// Losses are those up to now, at the sockets that there are in these namespaces and the switch's.
func (s *Switch) Losses(namespaces ...string) (l Losses) {
	s.t.Helper()
	for _, name := range append(namespaces, s.Netns) {
		out, err := s.Try("ip", "netns", "exec", name, "ss", "-0amn")
		if err != nil {
			s.t.Logf("sockets of %s: %v", name, err)
		}
		for _, found := range socketDrops.FindAllStringSubmatch(out, -1) {
			drops, _ := strconv.Atoi(found[1]) // they are digits
			l.Sockets += drops
		}
	}
	processors, err := os.ReadFile("/proc/net/softnet_stat")
	if err != nil {
		s.t.Logf("queues of processors: %v", err)
	}
	for line := range strings.Lines(string(processors)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			drops, err := strconv.ParseInt(fields[1], 16, 64)
			if err != nil {
				s.t.Logf("queues of processors: %v", err)
			}
			l.Processors += int(drops)
		}
	}
	return l
}
