package e2e

import "testing"

// A bed takes longer to come up than many chapters take, so those that need the same share one.

func TestRuntimesAndSwitches(t *testing.T) { tell(t, 2, runtimeChapters, switchChapters, handChapters) }

func TestTrafficServicesAndHosts(t *testing.T) {
	tell(t, 2, counterChapters, limitChapters, serviceChapters, entranceChapters, hostChapters, packetInChapters)
}

func TestMastersAgentsAndTheStore(t *testing.T) {
	tell(t, 3, masterChapters, agentChapters, corruptionChapters)
}

func TestTenantsAndClients(t *testing.T) {
	tell(t, 3, tenantChapters, badInputChapters, hostileChapters)
}
