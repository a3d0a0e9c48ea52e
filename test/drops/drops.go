// Package drops counts the packets dropped on the way through a node: by the kernel, for want of room in a socket
// or in the queue of a processor, and by the switch, with its reason. With these counts, a test that misses
// packets reports where they were dropped.
package drops

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Counts are dropped packets by place and reason, each since its counter began.
type Counts map[string]int

// Since returns what was dropped after an earlier count. A counter that only the later count has starts from zero,
// as those of the sockets of a switch that was started in between.
func (c Counts) Since(earlier Counts) Counts {
	grown := Counts{}
	for where, packets := range c {
		if more := packets - earlier[where]; more > 0 {
			grown[where] = more
		}
	}
	return grown
}

// Unread returns the packets for which sockets had no room, in total: for a userspace switch, what is lost when
// the machine is too busy to let it read its ports.
func (c Counts) Unread() (packets int) {
	for where, n := range c {
		if strings.HasPrefix(where, unread) {
			packets += n
		}
	}
	return packets
}

// String returns the counts that are not zero, sorted by name.
func (c Counts) String() string {
	var told []string
	for _, where := range slices.Sorted(maps.Keys(c)) {
		if c[where] != 0 {
			told = append(told, fmt.Sprintf("%d %s", c[where], where))
		}
	}
	if len(told) == 0 {
		return "neither the kernel nor a switch threw packets away, as far as they count"
	}
	return "packets thrown away: " + strings.Join(told, ", ")
}

// SocketsCommand lists, for AddSockets, the sockets of a namespace that receive packets and datagrams.
var SocketsCommand = []string{"ss", "-0uw", "-aenmHO"}

// socketLine matches the kind of a socket, its address or interface, its number, and its dropped packets.
var socketLine = regexp.MustCompile(`(?m)^(\S+)\s+\S+\s+\d+\s+\d+\s+(\S+)\s.*\sino:(\d+)\s.*skmem:\(.*,d(\d+)\)`)

// unread is the prefix of the names of sockets' counts.
const unread = "unread at "

// AddSockets counts what sockets dropped for want of room, from the output of SocketsCommand at a place.
func (c Counts) AddSockets(place, sockets string) error {
	for _, line := range socketLine.FindAllStringSubmatch(sockets, -1) {
		dropped, err := strconv.Atoi(line[4])
		if err != nil {
			return fmt.Errorf("sockets of %s: %q: %w", place, line[0], err)
		}
		c[fmt.Sprintf("%s%s: %s %s, number %s", unread, place, line[1], line[2], line[3])] = dropped
	}
	return nil
}

// SwitchCommand is the command by which ovs-vswitchd returns its counters, for AddSwitch.
const SwitchCommand = "coverage/show"

// switchLine matches the name of a counter of dropped packets, and its value.
var switchLine = regexp.MustCompile(`(?m)^(\w*drop\w*)\s.*total: (\d+)`)

// AddSwitch counts what a switch dropped, from its answer to SwitchCommand. Packets that flows deny are included
// if the datapath counts them.
func (c Counts) AddSwitch(place, coverage string) error {
	for _, line := range switchLine.FindAllStringSubmatch(coverage, -1) {
		dropped, err := strconv.Atoi(line[2])
		if err != nil {
			return fmt.Errorf("counters of the switch of %s: %q: %w", place, line[0], err)
		}
		c[fmt.Sprintf("in the switch of %s, %s", place, line[1])] = dropped
	}
	return nil
}

// queues has a line for each processor; the second number is the packets that were dropped because its queue was
// full.
const queues = "/proc/net/softnet_stat"

// AddProcessors counts the packets dropped by full queues of processors, of the whole machine.
func (c Counts) AddProcessors() error {
	text, err := os.ReadFile(queues)
	if err != nil {
		return fmt.Errorf("queues of processors: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return fmt.Errorf("%s: line %q has no count of dropped packets", queues, line)
		}
		dropped, err := strconv.ParseUint(fields[1], 16, 32)
		if err != nil {
			return fmt.Errorf("%s: line %q: %w", queues, line, err)
		}
		c[fmt.Sprintf("at the full queue of processor %d", i)] = int(dropped)
	}
	return nil
}
