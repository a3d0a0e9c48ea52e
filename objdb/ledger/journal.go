package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// A group too large for one transaction is written to a journal first, so that
// it happens as a whole all the same:
//
//	1. its changes, in parts, below journal/<lock>/    nothing has happened yet
//	2. the mark "committed", if all guards hold        now it has
//	3. the changes themselves, in their order
//	4. the journal is deleted
//
// All of it is fenced. Whoever opens a ledger next, the same process after an
// error or another after a crash, finishes 3 and 4 if it finds the mark, and
// drops the parts if it does not. In between, those who follow the store see
// the changes arrive in their order.

const journalRoot = "/contiv.io/journal/"

// journaled is one change in a part of a journal.
type journaled struct {
	Key    string `json:"key"`
	Value  []byte `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}

// mark is the value of the mark.
type mark struct {
	Parts int `json:"parts"`
}

func (l *Ledger) journalPrefix() string { return journalRoot + l.term.Lock() + "/" }

func (l *Ledger) markKey() string { return l.journalPrefix() + "committed" }

// journaledCommit commits a group that does not fit into one transaction.
func (l *Ledger) journaledCommit(ctx context.Context, g *group, plans int) error {
	changed, err := g.changes()
	if err != nil {
		return err
	}
	parts, err := l.parts(changed)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := l.send(ctx, objdb.Txn{Puts: []objdb.KV{part}}, plans); err != nil {
			return err
		}
	}
	for _, t := range l.decisive(g, changed, len(parts)) {
		if _, err := l.send(ctx, t, plans); err != nil {
			return err
		}
	}
	for _, t := range l.unguarded(changed) {
		rev, err := l.send(ctx, t, plans)
		if err != nil {
			return err
		}
		l.record(g.tree, t, rev)
	}
	return l.dropJournal(ctx, len(parts))
}

// parts are the keys and values of a journal of changes.
func (l *Ledger) parts(changed []change) ([]objdb.KV, error) {
	var all []objdb.KV
	for len(changed) > 0 {
		var part []journaled
		for size := 0; len(changed) > 0; changed = changed[1:] {
			c := changed[0]
			size += c.size()
			if len(part) > 0 && size > objdb.MaxTxnBytes/2 { // base64 and JSON take the rest
				break
			}
			part = append(part, journaled{c.key, c.value, c.delete})
		}
		value, err := json.Marshal(part)
		if err != nil {
			return nil, fault.New(fault.Internal, "journal: encode: %w", err)
		}
		all = append(all, objdb.KV{Key: fmt.Sprintf("%s%06d", l.journalPrefix(), len(all)), Value: value})
	}
	return all, nil
}

// decisive are the transactions that check all guards of a group, the last of
// which makes it happen.
func (l *Ledger) decisive(g *group, changed []change, parts int) []objdb.Txn {
	guards, _ := g.guards(changed)
	for _, c := range changed {
		guards = append(guards, objdb.AtRevision(c.key, c.base))
	}
	var all []objdb.Txn
	for len(guards) > l.maxOps {
		all = append(all, objdb.Txn{If: guards[:l.maxOps]})
		guards = guards[l.maxOps:]
	}
	value := fmt.Appendf(nil, `{"parts":%d}`, parts)
	return append(all, objdb.Txn{If: guards, Puts: []objdb.KV{{Key: l.markKey(), Value: value}}})
}

// unguarded cuts changes into transactions.
func (l *Ledger) unguarded(changed []change) []objdb.Txn {
	var all []objdb.Txn
	var t objdb.Txn
	size := 0
	for _, c := range changed {
		if n := len(t.Puts) + len(t.Deletes); n == l.maxOps || n > 0 && size+c.size() > objdb.MaxTxnBytes {
			all, t, size = append(all, t), objdb.Txn{}, 0
		}
		size += c.size()
		if c.delete {
			t.Deletes = append(t.Deletes, c.key)
		} else {
			t.Puts = append(t.Puts, objdb.KV{Key: c.key, Value: c.value})
		}
	}
	return append(all, t)
}

// dropJournal deletes the journal, the mark first.
func (l *Ledger) dropJournal(ctx context.Context, parts int) error {
	t := objdb.Txn{Deletes: []string{l.markKey()}}
	for i := range parts {
		t.Deletes = append(t.Deletes, fmt.Sprintf("%s%06d", l.journalPrefix(), i))
		if len(t.Deletes) == l.maxOps || i == parts-1 {
			if _, err := l.fenced(ctx, t); err != nil {
				return err
			}
			t.Deletes = nil
		}
	}
	return nil
}

// finishJournal completes what an interrupted commit has left, or drops it.
func (l *Ledger) finishJournal(ctx context.Context) error {
	kvs, _, err := l.db.List(ctx, l.journalPrefix())
	if err != nil || len(kvs) == 0 {
		return err
	}
	parts := kvs
	if last := kvs[len(kvs)-1]; last.Key == l.markKey() { // "c" sorts behind digits
		parts = kvs[:len(kvs)-1]
		changed, err := readJournal(last, parts)
		if err != nil {
			return err
		}
		for _, t := range l.unguarded(changed) {
			if _, err := l.fenced(ctx, t); err != nil {
				return err
			}
		}
		l.log.WithField("changes", len(changed)).Info("finished a commit that was interrupted")
	}
	return l.dropJournal(ctx, len(parts))
}

// readJournal decodes the parts that a mark counts.
func readJournal(marked objdb.KV, parts []objdb.KV) ([]change, error) {
	var m mark
	if err := json.Unmarshal(marked.Value, &m); err != nil {
		return nil, corruptValue(marked.Key, err)
	}
	if m.Parts > len(parts) {
		return nil, fault.New(fault.Internal, "journal %s: has %d of %d parts", marked.Key, len(parts), m.Parts)
	}
	var changed []change
	for _, kv := range parts[:m.Parts] {
		var part []journaled
		if err := json.Unmarshal(kv.Value, &part); err != nil {
			return nil, corruptValue(kv.Key, err)
		}
		for _, j := range part {
			changed = append(changed, change{key: j.Key, value: j.Value, delete: j.Delete})
		}
	}
	return changed, nil
}
