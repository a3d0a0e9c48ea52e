package api

import (
	"net/http"
	"sync"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/asking"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/netmaster/shares"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// Searches are made one after the other, and one client has few of those that wait.
func TestSearchesOfOneClientLeaveRoomForOthers(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann, bob := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"}), b.user("bob", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	b.endpointAs("proven:node/h1", "blue", "one")
	var waiting sync.WaitGroup
	goes, began := make(chan struct{}), make(chan string, 8)
	searches := func(who string, times int) {
		asked := b.entered(who).Context()
		for range times {
			waiting.Go(func() {
				if err := b.api.search(asked, func(ledger.Reader) error { began <- who; <-goes; return nil }); err != nil {
					t.Errorf("%s: %v", who, err)
				}
			})
		}
		testkit.Eventually(t, searchPatience, "all of them are counted", func() bool {
			release, err := b.api.entrance.Take(asked, shares.LongAnswer)
			release()
			return err != nil
		})
	}
	const clientAnswers = 4 // as docs/limits.md has it
	searches(ann, clientAnswers)
	for _, path := range []string{"/api/v1/inspect/endpoints/one", VerdictPath + "?from=one&to=one&port=1&protocol=tcp", TracePath + "?from=one&to=one&port=1&protocol=tcp"} {
		code, answer, _ := b.do("GET", path, "", asking.TokenHeader, ann, "Accept", rest.ProblemType)
		if code != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if n := len(began); n > 1 {
		t.Errorf("%d were made at once", n)
	}
	searches(bob, clientAnswers) // has as many places whatever ann has
	close(goes)
	waiting.Wait()
	if n := len(began); n != 2*clientAnswers {
		t.Errorf("%d searches were made, want %d", n, 2*clientAnswers)
	}
}
