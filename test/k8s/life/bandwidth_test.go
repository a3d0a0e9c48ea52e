package life

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testkit"
)

// bandwidth: a pod's annotations limit its bandwidth and set its profile, and changes of them apply while it runs.
func (s *story) bandwidth() {
	annotate := func(pod, text string) {
		s.Helper()
		_, err := s.Kubectl(s.ctx, "annotate", "--overwrite", "pod", pod, text)
		s.must(err)
	}
	const egress, ingress = "kubernetes.io/egress-bandwidth", "kubernetes.io/ingress-bandwidth"
	for _, name := range []string{"from", "to"} {
		s.must(create(s.ctx, s.api, name, s.Nodes[0].Name, 0))
	}
	annotate("from", egress+"=5M") // which may come before its ADD or after it
	for _, name := range []string{"from", "to"} {
		s.soon(func() error { return attached(get(s.ctx, s.api, name)) })
	}
	_, err := s.Netctl(s.ctx, "netprofile", "create", "-b", "5Mbps", "slow")
	s.must(err)
	for _, step := range []struct {
		pod, text   string
		least, most float64 // Mbit/s; a busy machine sends less, and without a limit not much more than the last one let pass
	}{
		{"from", egress + "=5M", 0.5, 7}, {"from", egress + "=40M", 8, 48}, {"from", egress + "=2M", 0.2, 3.6}, {"from", egress + "-", 8, 1e6},
		{"to", ingress + "=5M", 0.5, 7}, {"to", ingress + "-", 10, 1e6},
		{"to", mastercfg.ProfileAnnotation + "=slow", 0.5, 12}, {"to", mastercfg.ProfileAnnotation + "-", 15, 1e6},
	} {
		annotate(step.pod, step.text)
		if err := testkit.Poll(s.ctx, func() error {
			rate, err := rateBetween(s.ctx, s.Cluster, s.api)
			if err == nil && (rate < step.least || rate > step.most) {
				err = fmt.Errorf("%.1f Mbit/s, want %.1f to %.1f", rate, step.least, step.most)
			}
			s.Logf("%s %s: %.1f Mbit/s", step.pod, step.text, rate)
			return err
		}); err != nil {
			s.Errorf("%s %s: %v", step.pod, step.text, err)
		}
	}
}

// measured is for how many seconds it is sent: the meter's bucket, a second of 8 Mbit/s, is full at first.
const measured = 8

// rateBetween is what pod from gets through to pod to of 100 Mbit/s, in datagrams.
func rateBetween(ctx context.Context, c *cluster.Cluster, api *cluster.API) (float64, error) {
	n := c.Nodes[0]
	from, err1 := sandbox(ctx, n, "from")
	to, err2 := sandbox(ctx, n, "to")
	p, err3 := get(ctx, api, "to")
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	server, err := n.Start("iperf3", "nsenter", "--net="+to.Netns, "iperf3", "-s", "-1")
	if err != nil {
		return 0, err
	}
	defer server.Kill() // if no client connected
	if err := testkit.Poll(ctx, func() error {
		_, err := n.Run(ctx, "nsenter", "--net="+to.Netns, "sh", "-c", "ss -ltn | grep -q :5201")
		return err
	}); err != nil {
		return 0, err
	}
	out, err := n.Run(ctx, "nsenter", "--net="+from.Netns, "iperf3", "-c", p.Status.PodIP, "-u", "-b", "100M", "-l", "1300", "-t", fmt.Sprint(measured), "-J")
	if err != nil {
		return 0, err
	}
	var report struct {
		End struct {
			Streams []struct {
				UDP struct {
					Rate float64 `json:"bits_per_second"`
					Lost float64 `json:"lost_percent"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.End.Streams) == 0 {
		return 0, fmt.Errorf("iperf3 says %.300q: %w", out, err)
	}
	udp := report.End.Streams[0].UDP
	return udp.Rate * (1 - udp.Lost/100) / 1e6, nil
}
