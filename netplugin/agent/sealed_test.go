package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/secret"
)

// A node that reads the store itself has no keyring for encrypted values. It reports that as the reason while it
// is not ready, and retains its state.
func TestANodeWithoutKeysSaysThatItCannotRead(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	says := func(r *running) {
		t.Helper()
		eventually(t, "it says why it is not ready", func() error {
			if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "--encrypt-values") {
				return fmt.Errorf("ready: %v", err)
			}
			return nil
		})
	}
	r := startAgent(t, store.db, driver)
	r.awaitReady(t)
	store.put(ruleKey(blueRule), secret.SealedPrefix+"x")
	says(r)
	expectObjects(t, driver, "it keeps what it knows", blueObjects...)
	store.put(ruleKey(blueRule), ruleValue(blueRule, "allow"))
	r.awaitReady(t)
	r.stop()

	store.put(ruleKey(blueRule), secret.SealedPrefix+"x")
	says(startAgent(t, store.db, newRecorder()))
}
