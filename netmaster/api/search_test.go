package api

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

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
	goes, began := make(chan struct{}), make(chan struct{}, 4)
	asked := b.entered(ann).Context()
	for range 4 { // as docs/limits.md has it
		waiting.Go(func() {
			if err := b.api.search(asked, func(ledger.Reader) error { began <- struct{}{}; <-goes; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	testkit.Eventually(t, time.Minute, "all of them wait", func() bool {
		release, err := b.api.entrance.Take(asked, shares.LongAnswer)
		release()
		return err != nil
	})
	for _, path := range []string{"/api/v1/inspect/endpoints/one", VerdictPath + "?from=one&to=one&port=1&protocol=tcp", TracePath + "?from=one&to=one&port=1&protocol=tcp"} {
		code, answer, _ := b.do("GET", path, "", asking.TokenHeader, ann, "Accept", rest.ProblemType)
		if code != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if len(began) > 0 {
		t.Error("two were made at once")
	}
	answered := make(chan error, 1)
	go func() {
		if code, answer, _ := b.do("GET", "/api/v1/inspect/endpoints/one", "", asking.TokenHeader, bob); code != http.StatusOK {
			answered <- errors.New(answer)
		}
		close(answered)
	}()
	close(goes)
	waiting.Wait()
	if err := <-answered; err != nil {
		t.Error("another client:", err)
	}
}
