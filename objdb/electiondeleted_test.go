package objdb

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// Somebody deletes a key of the election: nobody would find the leader, or two would believe that they lead.
func TestATermEndsWhenOneOfItsKeysIsDeleted(t *testing.T) {
	for name, key := range map[string]func(*Term) string{
		"the holder's":    func(t *Term) string { return t.lock },
		"the candidate's": func(t *Term) string { return t.fence },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDB(t)
			first := campaign(t, db, "first", 10*time.Second)
			deleted := key(first)
			next := stands(t, db, "next", 10*time.Second)
			del(t, db, deleted)
			select {
			case <-first.Context().Done():
			case <-time.After(5 * time.Second): // half of what a lost lease takes
				t.Fatal("the term goes on")
			}
			if cause := context.Cause(first.Context()); !strings.Contains(cause.Error(), deleted+" was deleted") {
				t.Error(cause)
			}
			resign(t, first)
			term := won(t, next)
			testkit.Eventually(t, time.Minute, "the next is found", func() bool {
				holder, err := db.Holder(t.Context(), lock)
				return err == nil && holder == "next"
			})
			resign(t, term)
		})
	}
}
