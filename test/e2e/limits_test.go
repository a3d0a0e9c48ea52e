package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

var limitChapters = []chapter{
	{"a profile limits its pods in both directions, and marks what they send, whatever happens to it", func(s story) { aProfileLimits(s, landscapes[0]) }},
}

// Rates of profiles, in kbit/s: 10 and 20 Mbps, counted as profiles do.
const (
	tenMbps    = 10 * 1024 * 1024 / 1000
	twentyMbps = 20 * 1024 * 1024 / 1000
)

// aProfileLimits looks at packets of both IP families, where they arrive and on their way between nodes.
func aProfileLimits(s story, l landscape) {
	s.lan(l, dualStack)
	s.netctlForNow("netprofile create -t blue --bandwidth 10Mbps --dscp 46 slow", "netprofile rm -t blue slow")
	s.netctlForNow("group create -t blue -n slow lan front", "group rm -t blue front")
	limited, peer := s.pod(0, "limited", "blue", "lan", "front"), s.pod(1, "peer", "blue", "lan", "")
	beside := s.pod(0, "beside", "blue", "lan", "")
	s.reachEachOther(shortly, limited, peer, beside)

	s.loses(func() streamReport {
		return s.during(beside, peer, func() { s.flows(limited, peer, tenMbps) })
	}, func(r streamReport) int { return r.Sent / 100 }) // a busy machine may drop some packets of any flood
	s.flows(peer, limited, tenMbps)
	s.isUnlimited(beside, peer, tenMbps)

	for _, way := range [][2]*testbed.Pod{{limited, peer}, {peer, limited}} {
		for _, burst := range []int{100, 1000} {
			s.passesAtOnce(way[0], way[1], burst*1024, tenMbps, func() {
				for _, kib := range []int{500, burst} {
					s.netctl("netprofile", "create", "-t", "blue", "--bandwidth", "10Mbps", "--dscp", "46", "--burst", fmt.Sprint(kib), "slow")
					s.soon(shortly, func() error { return s.hasMeters(l, limited, tenMbps, kib*1024*8/1000) })
				}
			})
		}
	}

	wire, port := l.wire()
	s.withoutLossOfBoth(limited, peer, func() {
		s.marked(peer, "46", "eth0", echoPort)
		s.marked(peer.Node, "46", wire, port)
		s.netctl(strings.Fields("netprofile create -t blue --bandwidth 20Mbps --burst 1000 slow")...)
		s.soon(shortly, func() error { return s.hasMeters(l, limited, twentyMbps, 8192) })
		s.marked(peer, "0", "eth0", echoPort)
	})

	s.withoutLossOfBoth(limited, peer, func() {
		s.must(limited.Node.Netplugin().Kill())
		s.must(limited.Node.StartNetplugin())
		s.must(limited.Node.WaitReady(s.ctx))
		s.marked(peer, "0", "eth0", echoPort) // a hundred more
	})
	s.must(s.hasMeters(l, limited, twentyMbps, 8192))
	s.flows(limited, peer, twentyMbps)

	s.withoutLossOfBoth(limited, peer, func() {
		s.netctl("group", "update", "-t", "blue", "-n", "", "front")
		s.soon(shortly, func() error { return s.hasMeters(l, limited, 0, 0) })
		s.marked(peer, "0", "eth0", echoPort)
	})
	s.isUnlimited(limited, peer, twentyMbps)
}

// A short flood is larger than the smaller burst of the story and smaller than the larger one, and too fast for
// the rate alone to let much of it pass.
const (
	floodTime = 120 * time.Millisecond
	floodRate = 60_000 // kbit/s
	floodSize = 1400   // bytes of a datagram
)

// passesAtOnce expects that a full bucket of so many bytes lets that much of a short flood pass, and beyond it
// only the rate, in kbit/s. Changed meters have full buckets, which fill uses.
func (s story) passesAtOnce(from, to *testbed.Pod, burst int, rate float64, fill func()) {
	s.Helper()
	var sent int
	var passed, least, most float64
	s.unlessUnread(func() (lost int) {
		fill()
		before := s.arrived(to)
		out, err := from.Run(s.ctx, from.Probe(), "flood", "-size", fmt.Sprint(floodSize), "-rate", fmt.Sprint(floodRate), "-for", floodTime.String(), "-to", netip.AddrPortFrom(to.IP, 9).String())
		s.must(err)
		_, err = fmt.Sscan(out, &sent)
		s.must(err)
		s.pings(from, to.IP.String()) // packets behind the flood
		after := s.arrived(to)
		passed, least, most = float64(after.bytes-before.bytes), 0.9*float64(min(burst, sent)), float64(burst)+rate*1000/8*(after.at-before.at).Seconds()
		s.Logf("%s to %s: of %d bytes %.0f passed at once, with a burst of %d", from.Name, to.Name, sent, passed, burst)
		return int(max(0, least-passed)) / floodSize
	})
	if passed < least || passed > 1.05*most {
		s.Errorf("%s to %s: of %d bytes at once %.0f passed, want the burst of %d and %.0f at most", from.Name, to.Name, sent, passed, burst, most)
	}
}

// withoutLossOfBoth is withoutLoss for both IP families.
func (s story) withoutLossOfBoth(from, to *testbed.Pod, happens func()) {
	s.Helper()
	flows := []flow{{name: "IPv4", from: from, to: to.IP}, {name: "IPv6", from: from, to: s.ipv6Of(to)}}
	for i, r := range s.whileFlowing(flows, happens) {
		if r.Lost != 0 || r.Sent == 0 {
			s.Errorf("%s: of %d datagrams %d were lost", flows[i].name, r.Sent, r.Lost)
		}
	}
}

// flows expects that a flood from one pod to another arrives at a rate, in both IP families.
func (s story) flows(from, to *testbed.Pod, want float64) {
	s.Helper()
	for _, address := range []netip.Addr{to.IP, s.ipv6Of(to)} {
		s.arrives(from, to, address, 3*want, func(rate float64) bool { return math.Abs(rate/want-1) <= 0.1 })
	}
}

// isUnlimited expects that one pod can send another more than a limit lets pass. The offered rate is not much
// higher, so that a busy machine reaches it.
func (s story) isUnlimited(from, to *testbed.Pod, limit float64) {
	s.Helper()
	s.arrives(from, to, to.IP, 1.5*limit, func(rate float64) bool { return rate > 1.15*limit })
}

// arrives floods a pod from another one, at one of its addresses, and expects that soon, after the burst, the rate
// of arrivals in a second is right. Rates are in kbit/s.
func (s story) arrives(from, to *testbed.Pod, address netip.Addr, offered float64, right func(rate float64) bool) {
	s.Helper()
	flood, err := from.Start("flood-"+from.Name, from.Probe(), "flood", "-rate", fmt.Sprint(int(offered)), "-to", netip.AddrPortFrom(address, 9).String())
	s.must(err)
	defer func() { s.must(flood.Kill()) }()
	first := s.arrived(to)
	var wrong error // of the second before
	s.soon(shortly, func() error {
		last := s.arrived(to)
		took := last.at - first.at
		if took < time.Second {
			return cmp.Or(wrong, fmt.Errorf("measured for %s only", took))
		}
		rate := float64(last.bytes-first.bytes) * 8 / 1000 / took.Seconds()
		first = last
		if !right(rate) {
			wrong = fmt.Errorf("%s to %s at %s: %.0f kbit/s", from.Name, to.Name, address, rate)
			return wrong
		}
		s.Logf("%s to %s at %s: %.0f kbit/s", from.Name, to.Name, address, rate)
		return nil
	})
}

// arrival is the number of bytes received at a pod's interface at a time.
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

// marked expects that soon all of a hundred datagrams to a port have a mark when they arrive at a link of a pod,
// or of a node.
func (s story) marked(at interface {
	Run(context.Context, ...string) (string, error)
}, dscp, link, port string) {
	s.Helper()
	s.soon(shortly, func() error {
		out, err := at.Run(s.ctx, s.bed.Nodes[0].Tool("probe"), "marks", "-dev", link, "-port", port)
		if err != nil {
			return err
		}
		var seen map[string]int
		if err := json.Unmarshal([]byte(out), &seen); err != nil {
			return err
		}
		if len(seen) != 1 || seen[dscp] == 0 {
			return fmt.Errorf("port %s at %s: marks %v, want only %s", port, link, seen, dscp)
		}
		return nil
	})
}

// hasMeters returns an error unless the switch limits this pod, and no other, to a rate; 0: no pod is limited.
func (s story) hasMeters(l landscape, pod *testbed.Pod, rate, burst int) error {
	out, err := pod.Node.Run(s.ctx, "ovs-ofctl", "-O", "OpenFlow13", "dump-meters", l.switchName())
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
