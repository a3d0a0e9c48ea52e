package master

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// A machine is found by as many of its addresses as agents take, and by the one that its agent serves at.
func TestAMachineIsFoundByItsAddresses(t *testing.T) {
	var many []string
	for i := range hostaddr.Most + 1 {
		many = append(many, fmt.Sprintf("2001:db8::%x", i+1))
	}
	for _, c := range []struct {
		value   string
		has     []string
		without string
	}{
		{`{"Hostname":"n1","HostAddr":"192.0.2.1","Addresses":["::ffff:203.0.113.7","192.0.2.1","nothing"]}`, []string{"192.0.2.1", "203.0.113.7"}, "nothing"},
		{`{"Hostname":"n1","HostAddr":"192.0.2.1","Addresses":["` + strings.Join(many, `","`) + `"]}`, append([]string{"192.0.2.1"}, many[:hostaddr.Most]...), many[hostaddr.Most]},
		{`{"Hostname":"n1"}`, nil, ""},
		{`damaged`, nil, "192.0.2.1"},
	} {
		var got []string
		for _, index := range indexes() {
			if index.Prefix == objdb.ServicePrefix+mastercfg.AgentService+"/" {
				got = append(got, index.Terms(index.Prefix+"192.0.2.1:9002", []byte(c.value))...)
			}
		}
		for _, a := range c.has {
			if !slices.Contains(got, machineTerm+a) {
				t.Errorf("%.60s: %q, want %s", c.value, got, a)
			}
		}
		if slices.Contains(got, machineTerm+c.without) {
			t.Errorf("%.60s: %q, want no %s", c.value, got, c.without)
		}
	}
}
