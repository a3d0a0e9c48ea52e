package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Somebody renames the host, or mistypes --host-label, and netplugin starts again: in the store the containers are
// those of another node. They forward as before until netplugin is started with its name, or they are gone.
func TestContainersGoOnWhileTheirNodeHasAnotherName(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	before := startAgent(t, store.db, driver, soon)
	before.awaitReady(t)
	at := attachBlue(t, before)
	before.stop()

	other := newAgent(store.db, driver, soon, func(c *Config) { c.HostLabel = "renamed" })
	other.Hold(at)
	r := runAgent(t, other)
	eventually(t, "it tells both names and who is attached", func() error {
		err := fmt.Sprint(r.Ready())
		for _, part := range []string{me, "renamed", at.Endpoint.ID, "--host-label"} {
			if !strings.Contains(err, part) {
				return fmt.Errorf("not ready: %s", err)
			}
		}
		return nil
	})
	expectObjects(t, driver, "the switch keeps what it has", blueObjects...)
	if got := portIDs(driver); !slices.Equal(got, []string{at.Endpoint.ID}) {
		t.Errorf("ports: %q", got)
	}
	if _, err := r.HostAccess(); err == nil {
		t.Error("the host is configured without its containers")
	}
	if err := r.Detach(t.Context(), at.Endpoint.ID); err != nil {
		t.Fatal(err)
	}
	r.awaitReady(t)
	expectObjects(t, driver, "it has no endpoints under its new name")
}
