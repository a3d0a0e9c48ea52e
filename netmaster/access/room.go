package access

import (
	"slices"
	"time"

	"github.com/contiv/netplugin/objdb/ledger"
)

// given is something of a user of which he has so many at most.
type given struct {
	key     string
	counts  bool
	created time.Time
}

// makeRoom drops of what a user has until there is room for one more: first what does not count, then the oldest. What
// has ended stays while there is room, until Forget: a netmaster whose clock is ahead takes it for ended, and the next
// one knows better.
func makeRoom(tx *ledger.Tx, all []given, most int) {
	slices.SortFunc(all, func(a, b given) int {
		switch {
		case a.counts == b.counts:
			return a.created.Compare(b.created)
		case a.counts:
			return 1
		}
		return -1
	})
	for _, g := range all[:max(0, len(all)+1-most)] {
		tx.Delete(g.key)
	}
}
