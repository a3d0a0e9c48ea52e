package api

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/identity"
)

// A node that renews its certificate is told whether its registrations are accepted at its addresses; it has its
// certificate all the same.
func TestANodeThatRenewsIsToldThatItHasJoinedElsewhere(t *testing.T) {
	j := startJoin(t)
	m := newMachine(t, "h1")
	if _, refused := j.join(m, j.token(`{"role":"node"}`).Token); refused != "" { // with 10.0.0.1 and no tunnel end
		t.Fatal(refused)
	}
	for _, at := range []struct {
		address   string
		vteps     []string
		elsewhere bool
	}{{"10.0.0.1", nil, false}, {"10.0.0.2", nil, true}, {"10.0.0.1", []string{"10.0.0.1"}, true}} {
		answer, refused := j.renewAt(m, at.address, at.vteps...)
		if refused != "" {
			t.Fatal(refused)
		}
		j.belongs(answer, identity.Node, m)
		if answer.Elsewhere != at.elsewhere {
			t.Errorf("at %s, tunnels at %v: elsewhere %v", at.address, at.vteps, answer.Elsewhere)
		}
	}
	if _, refused := j.renewAt(m, "h1"); !strings.Contains(refused, "not an IP address") {
		t.Errorf("at a name: %q", refused)
	}
}
