package ovsd_test

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
)

func TestTheHostHasNoAddressOnTheLinkOfAPod(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	p := n.newPod(r, 1)
	if got := n.Exec("ip", "-o", "address", "show", "dev", p.port.HostLink); got != "" {
		t.Errorf("the pod reaches the host at %s", got)
	}
	if got := p.exec("ip", "-o", "-6", "address", "show", "dev", "eth0"); !strings.Contains(got, "fe80::") {
		t.Errorf("the pod's own end: %s", got)
	}
}
