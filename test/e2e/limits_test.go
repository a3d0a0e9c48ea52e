package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

var limitChapters = []chapter{
	{"a profile limits its pods in both directions, and marks what they send, whatever happens to it", aProfileLimits},
}

// Rates of profiles, in kbit/s: 10 and 20 Mbps, counted as profiles do.
const (
	tenMbps    = 10 * 1024 * 1024 / 1000
	twentyMbps = 20 * 1024 * 1024 / 1000
)

func aProfileLimits(s story) {
	s.tenant("blue")
	s.network("blue", "lan", "10.1.1.0/24")
	s.netctlForNow("netprofile create -t blue --bandwidth 10Mbps --dscp 46 slow", "netprofile rm -t blue slow")
	s.netctlForNow("group create -t blue -n slow lan front", "group rm -t blue front")
	limited, peer := s.pod(0, "limited", "blue", "lan", "front"), s.pod(1, "peer", "blue", "lan", "")
	beside := s.pod(0, "beside", "blue", "lan", "")
	s.reachEachOther(shortly, limited, peer, beside)

	s.loses(func() streamReport {
		return s.during(beside, peer, func() { s.flows(limited, peer, tenMbps) })
	}, func(r streamReport) int { return r.Sent / 100 }) // of any flood, a busy machine drops one or the other packet
	s.flows(peer, limited, tenMbps)
	s.isUnlimited(beside, peer, tenMbps)

	s.withoutLoss(limited, peer, func() {
		s.marked(peer, "46", "marks", "-dev", "eth0", "-port", echoPort)
		s.marked(peer, "46", "marks", "-dev", "uplink", "-port", "4789")
		s.netctl(strings.Fields("netprofile create -t blue --bandwidth 20Mbps --burst 1000 slow")...)
		s.soon(shortly, func() error { return s.hasMeters(limited, twentyMbps, 8192) })
		s.marked(peer, "0", "marks", "-dev", "eth0", "-port", echoPort)
	})

	s.withoutLoss(limited, peer, func() {
		s.must(limited.Node.Netplugin().Kill())
		s.must(limited.Node.StartNetplugin())
		s.must(limited.Node.WaitReady(s.ctx))
		s.marked(peer, "0", "marks", "-dev", "eth0", "-port", echoPort) // a hundred more
	})
	s.must(s.hasMeters(limited, twentyMbps, 8192))
	s.flows(limited, peer, twentyMbps)

	s.withoutLoss(limited, peer, func() {
		s.netctl("group", "update", "-t", "blue", "-n", "", "front")
		s.soon(shortly, func() error { return s.hasMeters(limited, 0, 0) })
		s.marked(peer, "0", "marks", "-dev", "eth0", "-port", echoPort)
	})
	s.isUnlimited(limited, peer, twentyMbps)
}

// flows expects that what one pod floods another with arrives at a rate.
func (s story) flows(from, to *testbed.Pod, want float64) {
	s.Helper()
	s.arrives(from, to, 3*want, func(rate float64) bool { return math.Abs(rate/want-1) <= 0.1 })
}

// isUnlimited expects that one pod can send another more than a limit lets pass.
// What is offered is not much more, so that a busy machine can do it.
func (s story) isUnlimited(from, to *testbed.Pod, limit float64) {
	s.Helper()
	s.arrives(from, to, 1.5*limit, func(rate float64) bool { return rate > 1.15*limit })
}

// arrives floods a pod from another one, and expects that soon, when the burst
// is over, a second's rate of what arrives is right. Rates are in kbit/s.
func (s story) arrives(from, to *testbed.Pod, offered float64, right func(rate float64) bool) {
	s.Helper()
	flood, err := from.Start("flood-"+from.Name, from.Probe(), "flood", "-rate", fmt.Sprint(int(offered)), "-to", netip.AddrPortFrom(to.IP, 9).String())
	s.must(err)
	defer func() { s.must(flood.Kill()) }()
	first := s.arrived(to)
	s.soon(shortly, func() error {
		last := s.arrived(to)
		took := last.at - first.at
		if took < time.Second {
			return fmt.Errorf("measured for %s only", took)
		}
		rate := float64(last.bytes-first.bytes) * 8 / 1000 / took.Seconds()
		first = last
		if !right(rate) {
			return fmt.Errorf("%s to %s: %.0f kbit/s", from.Name, to.Name, rate)
		}
		s.Logf("%s to %s: %.0f kbit/s", from.Name, to.Name, rate)
		return nil
	})
}

// arrival is how many bytes have come in at a pod's interface by a time.
type arrival struct {
	bytes int
	at    time.Duration
}

func (s story) arrived(pod *testbed.Pod) (a arrival) {
	s.Helper()
	out, err := pod.Run(s.ctx, "sh", "-ec", "cat /sys/class/net/eth0/statistics/rx_bytes; date +%s%N")
	s.must(err)
	_, err = fmt.Sscan(out, &a.bytes, &a.at)
	s.must(err)
	return a
}

// marked expects that soon all of a hundred datagrams that a probe sees at a pod,
// or at its node's uplink, have a mark.
func (s story) marked(pod *testbed.Pod, dscp string, probe ...string) {
	s.Helper()
	run := pod.Run
	if strings.Contains(strings.Join(probe, " "), "uplink") {
		run = pod.Node.Run
	}
	s.soon(shortly, func() error {
		out, err := run(s.ctx, append([]string{pod.Probe()}, probe...)...)
		if err != nil {
			return err
		}
		var seen map[string]int
		if err := json.Unmarshal([]byte(out), &seen); err != nil {
			return err
		}
		if len(seen) != 1 || seen[dscp] == 0 {
			return fmt.Errorf("%v: marks %v, want only %s", probe, seen, dscp)
		}
		return nil
	})
}

// hasMeters tells whether the switch limits a pod, and only it, to a rate; 0:
// it limits nobody.
func (s story) hasMeters(pod *testbed.Pod, rate, burst int) error {
	out, err := pod.Node.Run(s.ctx, "ovs-ofctl", "-O", "OpenFlow13", "dump-meters", "contivVxlanBridge")
	if err != nil {
		return err
	}
	wanted := 2
	if rate == 0 {
		wanted = 0
	}
	right := strings.Count(out, fmt.Sprintf("rate=%d burst_size=%d", rate, burst))
	if all := strings.Count(out, "kbps"); all != wanted || right != wanted {
		return fmt.Errorf("%d meters of limits, %d with rate %d and burst %d:\n%s", all, right, rate, burst, out)
	}
	return nil
}
