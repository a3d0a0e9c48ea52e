package nameserver

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// Whoever runs the node is told that its name servers do not answer, once, however many questions there are.
func TestNameServersWithoutAnAnswerAreTold(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	dead := netip.MustParseAddrPort("127.0.0.1:1")
	s := &Server{Zones: NewZones(), Tenant: inBlue, Log: logrus.NewEntry(log), Forwarder: NewForwarder(Fixed(dead))}
	for _, name := range []string{"one.example.org.", "two.example.org."} {
		reply := s.forward(t.Context(), "blue", someone, new(dns.Msg).SetQuestion(name, dns.TypeA))
		if reply.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %s", name, dns.RcodeToString[reply.Rcode])
		}
	}
	told := hook.AllEntries()
	if len(told) != 1 || told[0].Level != logrus.WarnLevel || told[0].Data["name"] != "one.example.org." || !strings.Contains(told[0].Data["error"].(error).Error(), dead.String()) {
		t.Errorf("told: %+v", told)
	}
}
