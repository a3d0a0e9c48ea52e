package e2e

import (
	"errors"
	"strings"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
)

var runtimeChapters = []chapter{
	{"CHECK names what a pod has lost, and a repeated ADD gives it back", checkNoticesLosses},
	{"STATUS says whether an ADD would be served", statusTells},
	{"GC removes what the runtime does not know", gcRemovesTheUnknown},
	{"ADD says what is wrong with what it is asked for, and leaves nothing", badADDs},
}

// losses are what may be removed from an attached pod. The agent restores a lost switch port on its own;
// switch_test.go has that.
var losses = []struct {
	what   string
	inside bool   // of the pod; else on the node
	script string // $1: the host's end of the link
	named  string // in CHECK's error
}{
	{"the default route", true, "ip route del default", "route"},
	{"the address", true, "ip addr flush dev eth0", "address"},
	{"the link, set down", true, "ip link set eth0 down", "eth0"},
	{"the link, renamed", true, "ip link set eth0 down; ip link set eth0 name eth7", "eth0"},
}

func checkNoticesLosses(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	pod, peer := s.pod(0, "pod", "blue", "front", ""), s.pod(1, "peer", "blue", "front", "")
	for _, loss := range losses {
		if _, err := pod.CNI(s.ctx, "check"); err != nil {
			s.Fatalf("CHECK before the loss of %s: %v", loss.what, err)
		}
		port := s.hostPort(pod.Node)
		run := pod.Run
		if !loss.inside {
			run = pod.Node.Run
		}
		_, err := run(s.ctx, "sh", "-ec", loss.script, "sh", port)
		s.must(err)
		if out, err := pod.CNI(s.ctx, "check"); err == nil {
			s.Errorf("CHECK does not notice the loss of %s: %s", loss.what, out)
		} else if !strings.Contains(err.Error(), loss.named) {
			s.Errorf("CHECK after the loss of %s does not name the %s: %v", loss.what, loss.named, err)
		}
		was := pod.IP
		s.must(pod.Attach(s.ctx))
		if pod.IP != was {
			s.Logf("a repeated ADD after the loss of %s gave %s instead of %s", loss.what, pod.IP, was)
		}
		s.reachEachOther(shortly, pod, peer)
	}
}

func statusTells(s story) {
	pod := s.sandbox(0, "pod", "blue", "front", "")
	if _, err := pod.CNI(s.ctx, "status"); err != nil {
		s.Errorf("STATUS of a node that is ready: %v", err)
	}
	s.killMasters()
	s.soon(shortly, func() error {
		if _, err := pod.CNI(s.ctx, "status"); err != nil {
			return nil
		}
		return errors.New("STATUS promises that an ADD would be served")
	})
	s.startMasters()
	s.soon(shortly, func() error {
		_, err := pod.CNI(s.ctx, "status")
		return err
	})
}

func gcRemovesTheUnknown(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	pod := s.pod(0, "pod", "blue", "front", "")
	elsewhere := s.pod(1, "elsewhere", "blue", "front", "")
	_, err := pod.CNI(s.ctx, "gc") // cnitool tells the plugin that no pod of this node is known
	s.must(err)
	s.soon(shortly, func() error { return endpoints(s.ctx, s.bed, 1) })
	if _, err := pod.Run(s.ctx, "ip", "link", "show", "eth0"); err == nil {
		s.Error("the pod still has its link")
	}
	s.must(pod.Attach(s.ctx))
	s.reachEachOther(shortly, pod, elsewhere)
}

func badADDs(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	s.netctlForNow("network create -t blue -s 10.3.0.0/30 -g 10.3.0.2 tiny", "network rm -t blue tiny")
	s.group("blue", "front", "web")
	s.pod(0, "fits", "blue", "tiny", "") // the gateway and this pod fill the network
	for _, bad := range []struct {
		name, tenant, network, group string
		says                         []string
	}{
		{"nobody", "green", "front", "", []string{"network front of tenant green"}},
		{"nowhere", "blue", "moon", "", []string{"network moon of tenant blue"}},
		{"no-group", "blue", "front", "dwarfs", []string{"dwarfs"}},
		{"wrong-group", "blue", "tiny", "web", []string{"web", "tiny"}},
		{"too-many", "blue", "tiny", "", []string{"exhaust", "10.3.0.0/30"}},
	} {
		pod := s.sandbox(1, bad.name, bad.tenant, bad.network, bad.group)
		err := pod.Attach(s.ctx)
		if err == nil {
			s.Errorf("%s: ADD to network %s, group %q of tenant %s succeeds", bad.name, bad.network, bad.group, bad.tenant)
			continue
		}
		for _, word := range bad.says {
			if !strings.Contains(err.Error(), word) {
				s.Errorf("%s: the error does not say %q: %v", bad.name, word, err)
			}
		}
		links, err := pod.Node.PodLinks(s.ctx)
		s.must(err)
		if out, err := pod.Node.Run(s.ctx, "find", "/var/lib/contiv/cni", "-type", "f", "!", "-name", attachment.BootsFile); len(links) > 0 || out != "" {
			s.Errorf("%s: a failed ADD left %v %s (%v)", bad.name, links, out, err)
		}
	}
}
