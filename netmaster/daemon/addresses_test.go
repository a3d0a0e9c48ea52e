package daemon

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// Nodes keep endpoints from netmasters at their registered addresses.
func TestAnAddressThatTheMachineGetsLaterIsRegistered(t *testing.T) {
	db := storetest.Open(t)
	var moved atomic.Bool
	n := run(t, func(c *Config) {
		c.addressesEvery = 10 * time.Millisecond
		c.addresses = func() []string {
			if moved.Load() {
				return []string{"192.0.2.1", "192.0.2.100"}
			}
			return []string{"192.0.2.1"}
		}
	})
	leader(t, n)
	registered(t, "leader") // from here on nothing else has it registered again
	moved.Store(true)
	testkit.Eventually(t, time.Minute, "the address is registered", func() bool {
		services, err := db.Services(t.Context(), mastercfg.MasterService)
		return err == nil && len(services) == 1 && slices.Contains(services[0].Addresses, "192.0.2.100")
	})
}
