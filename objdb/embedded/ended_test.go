package embedded

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

func TestAMemberThatIsStoppedWarnsOfNothing(t *testing.T) {
	log, told := testkit.Recorded()
	s, err := Start(t.Context(), Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), NoFsync: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	started := told.String()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimPrefix(told.String(), started); strings.Contains(got, "level=warning") || strings.Contains(got, "level=error") {
		t.Errorf("it says: %s", got)
	}
}

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
