package ledger

import (
	"bytes"

	"github.com/contiv/netplugin/objdb"
)

// settle reads the store again to find out what has become of a transaction whose answer was lost, and
// returns a revision at which it had happened. Otherwise the error stays that of the transaction.
func (l *Ledger) settle(t objdb.Txn, unknown error) (int64, error) {
	if err := l.reload(l.term.Context()); err != nil {
		l.log.WithError(err).Warn("what has become of a transaction cannot be read")
		return 0, unknown
	}
	if !l.state.Load().shows(t) {
		return 0, unknown
	}
	return l.newest, nil
}

// shows tells whether a state is one that a transaction has left: what it puts is there, all written at one
// revision, and what it deletes is not.
func (t *tree) shows(txn objdb.Txn) bool {
	rev := int64(0)
	for _, kv := range txn.Puts {
		r, ok := t.Get(record{key: kv.Key})
		if !ok || !bytes.Equal(r.value, kv.Value) || rev != 0 && r.rev != rev {
			return false
		}
		rev = r.rev
	}
	for _, key := range txn.Deletes {
		if _, ok := t.Get(record{key: key}); ok {
			return false
		}
	}
	return true
}
