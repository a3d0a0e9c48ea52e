package master_test

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/utils/fault"
)

// The refusal of a service with an unsupported protocol names the supported ones; clients of the original get its
// words.
func TestAServiceOfAnotherProtocolIsRefusedInClearWords(t *testing.T) {
	for port, says := range map[string]string{
		"5060:5060:sctp": `services are of tcp and udp, and "sctp" is not balanced`,
		"80:80:icmp":     `services are of tcp and udp, and "icmp" is not balanced`,
		"80:8080":        "such as 80:8080:tcp", "80:8080:": "such as 80:8080:tcp", "0:80:sctp": "such as 80:8080:tcp",
	} {
		err := master.CheckPorts([]string{"53:53:udp", port})
		if err == nil || err.Error() != "Invalid Port maping . Port format is - Port:TargetPort:Protocol" || !strings.Contains(fault.Explain(err), says) {
			t.Errorf("%s: %v: %s", port, err, fault.Explain(err))
		}
	}
	if err := master.CheckPorts([]string{"53:53:udp", "80:8080:TCP"}); err != nil {
		t.Error(err)
	}
}

// A repeated port may lead somewhere else, and a thousand of them cost an agent a million steps.
func TestAPortOfAServiceIsThereOnce(t *testing.T) {
	for _, again := range []string{"53:53:udp", "53:54:UDP", "053:53:udp"} {
		err := master.CheckPorts([]string{"53:53:udp", again})
		if says := "port 53/udp of the service is there twice"; !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Explain(err), says) {
			t.Errorf("%s: %v: %s, want %s", again, err, fault.Explain(err), says)
		}
	}
	if err := master.CheckPorts([]string{"53:53:udp", "53:53:tcp", "54:53:udp"}); err != nil {
		t.Error(err)
	}
}
