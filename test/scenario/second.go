package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// The second act's tenant, before the VLAN and on it.
const (
	serviceVIP = "10.2.1.200"
	lanGateway = "10.2.1.254"

	vlanID  = 107
	router4 = "10.1.7.1"
	router6 = "fd00:7::1"
)

// createBothVersions creates a client on the first node, and a shop on each of the others.
func (s *Scenario) createBothVersions(ctx context.Context) error {
	err := s.netctlAll(ctx,
		[]string{"tenant", "create", "green"},
		[]string{"network", "create", "-t", "green", "-s", "10.2.1.0/24", "-g", lanGateway, "-s6", "fd00:2::/64", "-g6", "fd00:2::fe", "lan"},
		[]string{"group", "create", "-t", "green", "lan", "shops"},
	)
	if err != nil {
		return err
	}
	if err := s.attach(ctx, &testbed.Pod{Name: "client", Node: s.bed.Nodes[0], Tenant: "green", Network: "lan"}); err != nil {
		return err
	}
	for i, name := range []string{"shop1", "shop2"} {
		shop := &testbed.Pod{Name: name, Node: s.bed.Nodes[i+1], Tenant: "green", Network: "lan", Group: "shops", Labels: map[string]string{"app": "shop"}}
		if err := s.attach(ctx, shop); err != nil {
			return err
		}
	}
	return s.pingBoth(ctx, "client", "shop1", "shop2")
}

// attach creates a pod with an echo server.
func (s *Scenario) attach(ctx context.Context, pod *testbed.Pod) error {
	if err := pod.MakeSandbox(ctx); err != nil {
		return err
	}
	if err := pod.Attach(ctx); err != nil {
		return err
	}
	s.pods[pod.Name] = pod
	s.timing("pod ADD", pod.Took)
	return pod.Serve(ctx, "-name", pod.Name, "-tcp", otherPort, "-udp", echoPort)
}

// pingBoth pings the IPv4 and IPv6 addresses of pods.
func (s *Scenario) pingBoth(ctx context.Context, from string, targets ...string) error {
	for _, target := range targets {
		v6, err := s.ipv6Of(ctx, target)
		if err != nil {
			return err
		}
		for _, address := range []string{s.pods[target].IP.String(), v6} {
			err := s.pings(ctx, s.pods[from], address)
			s.check(err == nil, "%s reaches %s at %s", from, target, address)
		}
	}
	return nil
}

// pings pings an address until it answers, for some seconds: its neighbour may have to be resolved first.
func (s *Scenario) pings(ctx context.Context, from interface {
	Run(context.Context, ...string) (string, error)
}, address string) error {
	_, err := from.Run(ctx, "ping", "-c1", "-W10", "-n", "-q", address)
	return err
}

func (s *Scenario) ipv6Of(ctx context.Context, pod string) (string, error) {
	out, err := s.pods[pod].Run(ctx, "ip", "-6", "-br", "address", "show", "dev", "eth0", "scope", "global")
	if err != nil {
		return "", err
	}
	for field := range strings.FieldsSeq(out) {
		if prefix, err := netip.ParsePrefix(field); err == nil {
			return prefix.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("%s has no IPv6 address: %q", pod, out)
}

// serviceCalls is the number of connections to the service.
const serviceCalls = 40

func (s *Scenario) createService(ctx context.Context) error {
	if err := s.netctl(ctx, "service", "create", "-t", "green", "-s", "lan", "-l", "app=shop", "-ip", serviceVIP, "-p", "80:80:TCP", "shop"); err != nil {
		return err
	}
	if err := s.served(ctx); err != nil {
		return err
	}
	answers := map[string]int{}
	for range serviceCalls {
		got, err := s.call(ctx)
		if err != nil {
			return err
		}
		answers[got]++
	}
	s.check(answers["shop1"] > 0 && answers["shop2"] > 0 && answers["shop1"]+answers["shop2"] == serviceCalls,
		"%d connections to %s: shop1 took %d, shop2 %d", serviceCalls, serviceVIP, answers["shop1"], answers["shop2"])
	return nil
}

// served waits until the service answers: once all nodes have received it.
func (s *Scenario) served(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		got, err := s.call(ctx)
		if err != nil {
			return err
		}
		if got != "" {
			return nil
		}
	}
}

// call connects to the service and returns the name of the pod that answered.
func (s *Scenario) call(ctx context.Context) (string, error) {
	target := serviceVIP + ":" + otherPort
	client := s.pods["client"]
	out, err := client.Run(ctx, client.Probe(), "reach", "-tcp", target)
	if err != nil {
		return "", err
	}
	var answers map[string]string
	err = json.Unmarshal([]byte(out), &answers)
	return answers[target], err // two statements: in one, the map may be read before it is filled
}

// resolveNames queries the gateway, the name server in the pod's resolv.conf.
func (s *Scenario) resolveNames(ctx context.Context) error {
	v6 := make([]string, 2)
	var err error
	for i, name := range []string{"shop1", "shop2"} {
		if v6[i], err = s.ipv6Of(ctx, name); err != nil {
			return err
		}
	}
	v4 := []string{s.pods["shop1"].IP.String(), s.pods["shop2"].IP.String()}
	for _, question := range []struct {
		kind, name string
		want       []string
	}{
		{"A", "shop", []string{serviceVIP}},
		{"A", "shops", v4},
		{"AAAA", "shops.green.contiv.internal", v6},
		{"A", "shops.blue.contiv.internal", []string{"NXDOMAIN"}},
	} {
		slices.Sort(question.want)
		want := strings.Join(question.want, " ")
		client := s.pods["client"]
		out, err := client.Run(ctx, client.Probe(), "resolve", "-server", lanGateway, "-type", question.kind, question.name)
		if err != nil {
			return err
		}
		var told map[string]string
		if err := json.Unmarshal([]byte(out), &told); err != nil {
			return err
		}
		s.check(told[question.name] == want, "%s %s is %s", question.kind, question.name, told[question.name])
	}
	return nil
}
