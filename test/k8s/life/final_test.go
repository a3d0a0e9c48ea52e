package life

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// final: an isolated pod is reached where a rule of its group allows it, if the tenant's rules are final, and not by default.
func (s *story) final() {
	netctl := func(args ...string) {
		s.Helper()
		_, err := s.Netctl(s.ctx, args...)
		s.must(err)
	}
	client, server, apart := s.pod("caller", 1), s.pod("member", 1), s.pod("apart", 1)
	s.policy("alone", object{"podSelector": object{"matchExpressions": []object{{"key": "run", "operator": "In", "values": []string{server.Name, apart.Name}}}}, "policyTypes": []string{"Ingress"}})
	netctl("policy", "create", "callers")
	netctl("policy", "rule-add", "callers", "1", "--direction", "in", "--protocol", "icmp", "--action", "allow")
	netctl("group", "create", mastercfg.DefaultNetwork, "members", "--policy", "callers")
	_, err := s.Kubectl(s.ctx, "annotate", "pod", server.Name, mastercfg.GroupLabel+"=members")
	s.must(err)
	s.soon(func() error { _, err := s.toldOf("GroupMoved"); return err })
	s.soon(func() error { return s.isolated(client, server.IP) })

	netctl("tenant", "update", mastercfg.DefaultTenant, "--policy-mode", mastercfg.PolicyFinal)
	s.soon(func() error { return s.reaches(client, server.IP) })
	s.must(s.isolated(client, apart.IP)) // which is of no group
	netctl("tenant", "update", mastercfg.DefaultTenant, "--policy-mode", "")
	s.soon(func() error { return s.isolated(client, server.IP) })
	s.noPolicy("alone")
}
