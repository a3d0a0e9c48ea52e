package access

import (
	"slices"
	"time"

	"github.com/contiv/netplugin/objdb/ledger"
)

// given is an item of which a user may have a limited number.
type given struct {
	key     string
	counts  bool
	created time.Time
}

// makeRoom removes items of a user until there is room for one more: first invalid ones, then the oldest. Expired
// items are retained while there is room, until Forget: they may be expired only by the clock of a netmaster that
// is ahead.
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
