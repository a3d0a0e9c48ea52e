package api

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/mirror"
)

// silentStore does not answer in time, as one without a majority, or whose members choose a leader.
type silentStore struct{ Store }

func (s silentStore) Ping(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// However long the store delays a status, members that answer are not reported as missing.
func TestMembersThatAnswerAreNotMissingWhileTheStoreDoesNot(t *testing.T) {
	b := ready(t, func(c *Config) {
		c.StoreMissing = func(ctx context.Context) ([]string, error) {
			if err := ctx.Err(); err != nil { // as of the embedded member: no answer
				return []string{"n2", "n3"}, err
			}
			return []string{"n3"}, nil
		}
	})
	recorder := httptest.NewRecorder()
	New(b.ledger, silentStore{b.db}, mirror.NewFeed(b.db, mastercfg.ModelRoot), b.api.config).
		ServeHTTP(recorder, httptest.NewRequest("GET", "/api/v1/status/", nil))
	var s contivmodel.Status
	if err := json.Unmarshal(recorder.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Store.Healthy {
		t.Error("healthy")
	}
	b.same("missing", s.Store.Missing, []string{"n3"})
}
