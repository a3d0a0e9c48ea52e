package drops

import (
	"fmt"
	"testing"
)

// The socket of a restarted switch had dropped 163 packets, and that of the switch before it 108: only 55 were
// reported, and the rest seemed to be lost without a reason.
func TestWhatASwitchDidNotReadIsCountedByItsOwnSocket(t *testing.T) {
	const (
		ofPort = "p_raw UNCONN 0      0        *:%s   * ino:%d sk:2009 skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d%d)     \n"
		ofUDP  = "udp   UNCONN 0      0      127.0.0.1:9997 0.0.0.0:* ino:%d sk:21a cgroup:/ <-> skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d%d)      \n"
	)
	before, now := Counts{}, Counts{}
	for _, socket := range []struct {
		at   Counts
		line string
	}{
		{before, fmt.Sprintf(ofPort, "eth1", 7, 108)},
		{before, fmt.Sprintf(ofPort, "vvport8", 8, 125)},
		{before, fmt.Sprintf(ofUDP, 3, 4)},
		{now, fmt.Sprintf(ofPort, "eth1", 9, 163)},
		{now, fmt.Sprintf(ofPort, "vvport8", 8, 126)},
		{now, fmt.Sprintf(ofUDP, 3, 6)},
	} {
		if err := socket.at.AddSockets("node2", socket.line); err != nil {
			t.Fatal(err)
		}
	}
	now["in the switch of node2, drop_action_of_pipeline"] = 7
	got := now.Since(before)
	const want = "packets thrown away: 7 in the switch of node2, drop_action_of_pipeline, 163 unread at node2: p_raw *:eth1, number 9, " +
		"1 unread at node2: p_raw *:vvport8, number 8, 2 unread at node2: udp 127.0.0.1:9997, number 3"
	if got.String() != want || got.Unread() != 166 {
		t.Errorf("%d: %v, want %s", got.Unread(), got, want)
	}
}

func TestTheReasonsOfASwitchAreCounted(t *testing.T) {
	const coverage = `Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=4ca9a9e6:
xlate_actions              4.4/sec     4.150/sec        4.0811/sec   total: 53427
datapath_drop_upcall_error  0.0/sec     0.000/sec        0.0000/sec   total: 16
drop_action_of_pipeline    0.0/sec     0.000/sec        0.0000/sec   total: 3
87 events never hit
`
	c := Counts{}
	if err := c.AddSwitch("node1", coverage); err != nil {
		t.Fatal(err)
	}
	const want = "packets thrown away: 16 in the switch of node1, datapath_drop_upcall_error, 3 in the switch of node1, drop_action_of_pipeline"
	if c.String() != want {
		t.Errorf("%v, want %s", c, want)
	}
}

func TestTheQueuesOfThisMachineAreCounted(t *testing.T) {
	c := Counts{}
	if err := c.AddProcessors(); err != nil {
		t.Fatal(err)
	}
	if len(c) == 0 {
		t.Error("no processor has a queue")
	}
}
