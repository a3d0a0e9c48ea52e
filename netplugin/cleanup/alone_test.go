package cleanup

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/utils/fault"
)

func TestACleanupRefusesWhileABridgeIsKept(t *testing.T) {
	s := ovstest.Start(t)
	c := Config{RunDir: s.RunDir, Bridges: []string{"br-a", "br-b"}, DryRun: true, Out: io.Discard}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := withLock(ctx, s.RunDir, drivers.LockName("br-b"), func(ctx context.Context, db *database) error {
		if !db.client.Owner() {
			t.Error("the lock is not ours")
		}
		return Run(ctx, c)
	})
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("while br-b is kept: %v", err)
	}
	if err := Run(ctx, c); fault.Is(err, fault.Conflict) {
		t.Errorf("afterwards: %v", err)
	}
}
