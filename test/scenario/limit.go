package scenario

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A limit of 20 Mbps, in the units of profiles, and the offered load; in kbit/s.
const (
	limitText = "20Mbps"
	limit     = 20 * 1024 * 1024 / 1000
	offered   = 3 * limit
)

// settling is the time limit for a change to be seen on a busy machine.
const settling = 20 * time.Second

// limitGroup floods a pod, and meanwhile sets a limit for its group.
func (s *Scenario) limitGroup(ctx context.Context) error {
	client, shop := s.pods["client"], s.pods["shop1"]
	flood, err := client.Start("flood", client.Probe(), "flood", "-rate", fmt.Sprint(offered), "-to", shop.IP.String()+":9", "-for", "1m")
	if err != nil {
		return err
	}
	defer flood.Kill()
	before, err := s.arrives(ctx, "shop1", func(rate float64) bool { return rate > 1.5*limit })
	s.check(err == nil, "without a limit shop1 receives %.1f Mbit/s", before/1000)
	if err := s.netctlAll(ctx,
		[]string{"netprofile", "create", "-t", "green", "--bandwidth", limitText, "--dscp", "46", "slow"},
		[]string{"group", "update", "-t", "green", "-n", "slow", "shops"},
	); err != nil {
		return err
	}
	limited, err := s.arrives(ctx, "shop1", func(rate float64) bool { return math.Abs(rate/limit-1) <= 0.1 })
	s.check(err == nil, "limited to %s it receives %.1f Mbit/s", limitText, limited/1000)
	return nil
}

// arrives measures the rate received by a pod, a second at a time, until right accepts it. Rates are in kbit/s.
func (s *Scenario) arrives(ctx context.Context, pod string, right func(rate float64) bool) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		out, err := s.pods[pod].Run(ctx, "sh", "-ec", "cat /sys/class/net/eth0/statistics/rx_bytes; date +%s%N; sleep 1; cat /sys/class/net/eth0/statistics/rx_bytes; date +%s%N")
		if err != nil {
			return rate, err
		}
		var bytes [2]float64
		var at [2]time.Duration
		if _, err := fmt.Sscan(out, &bytes[0], &at[0], &bytes[1], &at[1]); err != nil {
			return rate, err
		}
		rate = (bytes[1] - bytes[0]) * 8 / 1000 / (at[1] - at[0]).Seconds()
		if right(rate) {
			return rate, nil
		}
	}
}
