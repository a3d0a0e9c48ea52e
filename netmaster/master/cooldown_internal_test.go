package master

import (
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Of addresses that are assigned and released all the time, those of one minute are kept.
func TestFewAddressesAreRememberedOfAPodThatFailsAgainAndAgain(t *testing.T) {
	now := time.Now()
	r := NewCooldown(func() time.Time { return now })
	ep := mastercfg.CfgEndpointState{NetID: "pods.default", PodUID: "u1", IPAddress: "10.1.0.1"}
	for range 1000 {
		r.formerAddresses(&ep)
		r.Given(&ep)
		now = now.Add(10 * time.Second)
		r.Freed(&ep)
		now = now.Add(10 * time.Second)
		if v4, _ := r.formerAddresses(&ep); !v4.IsValid() {
			t.Fatal("the next attempt does not get the address again")
		}
	}
	if n := len(r.sequence); n > 4 {
		t.Errorf("%d addresses are remembered", n)
	}
}
