package life

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// Two policies with so many rules each name one client: a switch has room for one of them, not for both.
const (
	rulesEach = 2100
	firstPort = 10000
	roomFor   = 4000
)

// refused: a switch without room for all rules of policies applies the others. Traffic that needs the missing ones
// is denied, and that is reported; when there is room it applies all, and that is reported, too.
func (s *story) refused() {
	ports := make([]string, rulesEach)
	for i := range ports {
		ports[i] = fmt.Sprint(firstPort + i)
	}
	client := s.pod("client", 1)
	servers := map[string]*cluster.Pod{"one": s.pod("one", 1), "two": s.pod("two", 1)}
	for name, server := range servers {
		process, err := server.Start("serve-"+name, server.Node.Tool("probe"), "serve", "-udp", strings.Join(ports, ","))
		s.must(err)
		s.Cleanup(func() { _ = process.Kill() })
	}
	allowed := func(want int, names ...string) error {
		answers := 0
		for _, name := range names {
			answers += s.answering(client, servers[name], ports)
		}
		if answers != want {
			return fmt.Errorf("%d ports of %q answer, want %d", answers, names, want)
		}
		return nil
	}
	s.soon(func() error { return allowed(2*rulesEach, "one", "two") })

	for name := range servers {
		s.policy(name, lets("client", name, ports))
	}
	var refused string
	s.soon(func() (err error) { refused, err = s.toldOf("PolicyNotEnforced"); return err })
	s.soon(func() error { return allowed(roomFor, "one", "two") })
	s.soon(func() error { return s.inForce(refused, "on 0 of 1 nodes", "refuses rules of the policy") })

	s.noPolicy(map[string]string{"one": "two", "two": "one"}[refused]) // nobody judges who comes there any more
	s.soon(func() error {
		recovered, err := s.toldOf("PolicyEnforced")
		if err == nil && recovered != refused {
			err = fmt.Errorf("%s is told of, not %s", recovered, refused)
		}
		return err
	})
	s.soon(func() error { return allowed(2*rulesEach, "one", "two") })
	s.soon(func() error { return s.inForce(refused, "on 1 of 1 nodes", "") })
	s.noPolicy(refused)
}

// inForce returns an error unless netctl reports this state of a NetworkPolicy.
func (s *story) inForce(policy, realised, why string) error {
	out, err := s.Netctl(s.ctx, "describe", "network-policy", "default/"+policy)
	if err == nil && !(strings.Contains(out, realised) && strings.Contains(out, why)) {
		err = fmt.Errorf("policy %s: want %q, %q:\n%s", policy, realised, why, out)
	}
	return err
}

// answering is at how many ports a pod answers another. Those that do not are asked again as long as some more
// answer: of so many datagrams at once most may be lost where the switch waits for a processor.
func (s *story) answering(from, to *cluster.Pod, ports []string) (count int) {
	s.Helper()
	for {
		var targets, silent []string
		for _, port := range ports {
			targets = append(targets, to.IP+":"+port)
		}
		out, err := from.Run(s.ctx, from.Node.Tool("probe"), "reach", "-wait", "3s", "-udp", strings.Join(targets, ","))
		s.must(err)
		answers := map[string]string{}
		s.must(json.Unmarshal([]byte(out), &answers))
		for i, target := range targets {
			if answers[target] == "" {
				silent = append(silent, ports[i])
			}
		}
		count += len(ports) - len(silent)
		if len(silent) == 0 || len(silent) == len(ports) {
			return count
		}
		ports = silent
	}
}

// lets returns a policy's spec with one rule for each port by which one pod reaches another.
func lets(client, server string, ports []string) object {
	rules := make([]object, len(ports))
	for i, port := range ports {
		rules[i] = object{"from": []object{{"podSelector": selects(client)}}, "ports": []object{{"protocol": "UDP", "port": json.Number(port)}}}
	}
	return object{"podSelector": selects(server), "ingress": rules}
}
