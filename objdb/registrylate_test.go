package objdb

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// What a registration has sent and heard no answer to may happen later, as when a member, or a netmaster with its gate, was
// stopped for a while. It must not take the place of what was announced since.
func TestAnAnnouncementThatArrivesLateDoesNotReplaceTheOneAfterIt(t *testing.T) {
	url := testetcd.New(t)
	near := open(t, Config{Endpoints: []string{url}})
	var mu sync.Mutex
	var kept *testetcd.Request
	way := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if kept == nil && r.Method == "Txn" && bytes.Contains(r.Body, []byte(`"Role":"follower"`)) {
			kept = &r
			return nil, testetcd.ErrNoAnswer
		}
		return r.Send()
	})
	r := register(t, open(t, Config{Endpoints: []string{way}}), time.Minute, master("follower"))
	announced(t, near, "netmaster", master("follower"))
	r.Update(master("leader"))
	announced(t, near, "netmaster", master("leader"))
	mu.Lock()
	late := kept
	mu.Unlock()
	if _, err := late.Send(); err != nil {
		t.Log(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := testkit.Poll(ctx, func() error {
		got, err := near.Services(ctx, "netmaster")
		if err == nil && (len(got) != 1 || got[0].Role != "leader") {
			t.Logf("registered: %+v", got)
			err = context.DeadlineExceeded
		}
		return err
	}); err != nil {
		t.Error("what was announced first has taken the place of what was announced last, for good")
	}
}
