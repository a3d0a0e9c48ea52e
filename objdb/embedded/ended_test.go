package embedded

import (
	"context"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// The behaviour of a removed member on its removal, without the seconds that etcd waits before it accepts a
// removal.
func TestAMemberThatEndsByItselfSaysSo(t *testing.T) {
	s, err := Start(t.Context(), Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), NoFsync: true, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.etcd.Server.HardStop()
	select {
	case <-s.Err():
	case <-time.After(20 * time.Second):
		t.Fatal("it says nothing")
	}
}
