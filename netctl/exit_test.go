package netctl

import (
	"testing"
)

// With JSON output, by either flag, refusals are printed as netmaster sends them.
func TestRefusalsAreJSONForThoseWhoAskForJSON(t *testing.T) {
	_, url := startFake(t)
	const missing = "{\n  \"code\": 404,\n  \"reason\": \"not-found\",\n  \"message\": \"tenant not found: blue\",\n  \"field\": \"\",\n  \"details\": []\n}\n"
	for _, line := range []string{"network ls -t blue -o json", "network ls -t blue -j", "network ls -t blue --json", "get networks -t blue -j", "policy rule-ls p -t blue -j"} {
		wantOutcome(t, line, run(t, url, line), outcome{5, "", missing})
	}
	for _, line := range []string{"network ls -t blue", "network ls -t blue -o yaml", "network ls -t blue -o csv -j"} {
		wantOutcome(t, line, run(t, url, line), outcome{5, "", "error: tenant not found: blue\n"})
	}
	const line = "policy rule-add p 1 -t blue -j deny" // the letter is that of the action there
	wantOutcome(t, line, run(t, url, line), outcome{3, "", "error: Tenant not found\n"})
}
