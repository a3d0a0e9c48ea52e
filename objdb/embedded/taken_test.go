package embedded_test

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// etcd would wait for the lock of the data without a message, and could not be stopped.
func TestASecondMemberInADirectoryIsRefused(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL()}
	first := start(t, within(time.Minute), cfg)
	testetcd.Ready(t, first)
	second := cfg
	second.ClientURL, second.PeerURL, second.Log = testkit.FreeURL(), testkit.FreeURL(), testkit.Quiet()
	if _, err := embedded.Start(t.Context(), second); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "another process runs a member in it") {
		t.Errorf("a second one: %v", err)
	}
	testetcd.Stop(t, first)
	testetcd.Ready(t, start(t, within(time.Minute), cfg))
}
