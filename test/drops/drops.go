// Package drops counts the packets that were thrown away on the way through a node: by the kernel, for want of room
// in a socket or in the queue of a processor, and by the switch, with its reason. A test that misses packets tells by
// these counts who lost them.
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

// Counts are packets by where and why they were thrown away, each since its counter began.
type Counts map[string]int

// Since is what was thrown away after an earlier count. What is new in the later one counts from zero, as the sockets
// of a switch that was started meanwhile.
func (c Counts) Since(earlier Counts) Counts {
	grown := Counts{}
	for where, packets := range c {
		if more := packets - earlier[where]; more > 0 {
			grown[where] = more
		}
	}
	return grown
}

// Unread is how many found no room in sockets, all together: of a switch in user space that is what a machine loses
// that is too busy to let it read its ports.
func (c Counts) Unread() (packets int) {
	for where, n := range c {
		if strings.HasPrefix(where, unread) {
			packets += n
		}
	}
	return packets
}

// String has the counts that are not zero, in the order of their names.
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

// SocketsCommand lists the sockets of a namespace through which packets and datagrams come, for AddSockets.
var SocketsCommand = []string{"ss", "-0uw", "-aenmHO"}

// socketLine has the kind of a socket, its address or interface, its number, and how much it dropped.
var socketLine = regexp.MustCompile(`(?m)^(\S+)\s+\S+\s+\d+\s+\d+\s+(\S+)\s.*\sino:(\d+)\s.*skmem:\(.*,d(\d+)\)`)

// unread begins the names of counts of sockets.
const unread = "unread at "

// AddSockets counts what found no room in sockets, from what SocketsCommand says in a place.
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

// SwitchCommand is the command of ovs-vswitchd that tells its counters, for AddSwitch.
const SwitchCommand = "coverage/show"

// switchLine has the name of a counter of packets that were dropped, and its value.
var switchLine = regexp.MustCompile(`(?m)^(\w*drop\w*)\s.*total: (\d+)`)

// AddSwitch counts what a switch threw away, from what it answers to SwitchCommand. Those that its flows deny are
// among them, where its datapath counts them.
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

// queues has a line for each processor; its second number is how many packets found its queue full.
const queues = "/proc/net/softnet_stat"

// AddProcessors counts what found the queue of a processor full, of the whole machine.
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
