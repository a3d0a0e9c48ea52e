package e2e

import "testing"

// A bed takes longer to start than many chapters take, so those that need the same share one.
//
// Stories that count datagrams run one after the other, and nothing else of this package runs meanwhile. The
// others mostly wait for daemons, so they run in parallel (t.Parallel) when those are over.

func TestRuntimesAndSwitches(t *testing.T) {
	t.Parallel()
	tell(t, 2, runtimeChapters, switchChapters)
}

func TestClients(t *testing.T) {
	t.Parallel()
	tell(t, 3, badInputChapters, hostileChapters)
}

func TestTenants(t *testing.T) {
	t.Parallel()
	tell(t, 3, tenantChapters)
}

func TestHosts(t *testing.T) {
	t.Parallel()
	tell(t, 2, entranceChapters, hostChapters)
}

func TestTrafficAndServices(t *testing.T) {
	tell(t, 2, counterChapters, limitChapters, serviceChapters, packetInChapters, handChapters)
}

func TestMastersAgentsAndTheStore(t *testing.T) {
	tell(t, 3, masterChapters, agentChapters, corruptionChapters, networkChapters)
}
