package ovstest

import "github.com/contiv/netplugin/test/drops"

// Drops counts the packets dropped so far: by the switch, and by the kernel at the present sockets of these
// namespaces and of the switch's. What cannot be counted is reported in the test's log.
func (s *Switch) Drops(namespaces ...string) drops.Counts {
	s.t.Helper()
	c := drops.Counts{}
	told := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Logf("packets that were thrown away: %v", err)
		}
	}
	told(c.AddProcessors())
	for _, name := range append(namespaces, s.Netns) {
		sockets, err := Run(inNamespace(name, drops.SocketsCommand...))
		told(err)
		told(c.AddSockets(name, sockets))
	}
	counters, err := s.call(drops.SwitchCommand)
	told(err)
	told(c.AddSwitch(s.Netns, counters))
	return c
}
