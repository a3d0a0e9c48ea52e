package objdb

import (
	"bytes"
	"maps"
	"runtime/debug"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// batch is a group of plans that are committed together.
type batch struct {
	base    *tree // committed state
	tree    *tree // base with the writes of the plans so far
	owned   prefixes
	corrupt *corruption
	maxOps  int

	keys   map[string]struct{} // read or written
	spans  map[span]struct{}   // ranges read
	writes map[string]int      // key -> place of its last write
	places int
	bytes  int
}

func newBatch(base *tree, owned prefixes, corrupt *corruption) *batch {
	return &batch{
		base: base, tree: base.Clone(), owned: owned, corrupt: corrupt, maxOps: fewOps,
		keys: map[string]struct{}{}, spans: map[span]struct{}{}, writes: map[string]int{},
	}
}

// add runs a plan on top of those before it and takes its writes if it
// succeeds. fits is false, and nothing has changed, when the batch would become
// too large; a plan that comes first is always taken.
func (b *batch) add(plan func(*Tx) error) (err error, fits bool) {
	tx := newTx(b)
	switch err = tx.run(plan); {
	case err != nil:
		tx.rollback(0)
	case len(tx.wrote) == 0: // needs no guard: it saw a state between two plans
	case len(b.writes) > 0 && !b.fits(tx):
		tx.rollback(0)
		return nil, false
	default:
		b.take(tx)
	}
	return err, true
}

// run calls the plan; a panic in it is an error of this plan only.
func (tx *Tx) run(plan func(*Tx) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			tx.batch.corrupt.log.WithField("stack", string(debug.Stack())).Errorf("plan panicked: %v", cause)
			err = fault.New(fault.Internal, "plan failed: %v", cause)
		}
	}()
	err = plan(tx)
	if tx.fail != nil {
		return tx.fail // the plan cannot have known what it was doing
	}
	return err
}

// fits tells whether the batch together with a plan stays within the limits.
func (b *batch) fits(tx *Tx) bool {
	compares := len(b.keys) + len(b.spans) + len(tx.spans)
	for key := range tx.touched() {
		if _, ok := b.keys[key]; !ok {
			compares++
		}
	}
	return compares <= b.maxOps && b.bytes+tx.size() <= maxBytes
}

// touched are the keys the plan read or wrote.
func (tx *Tx) touched() map[string]struct{} {
	keys := maps.Clone(tx.reads)
	for key := range tx.wrote {
		keys[key] = struct{}{}
	}
	return keys
}

// size is an upper bound of what the transaction's writes take.
func (tx *Tx) size() int {
	size := 0
	for key := range tx.wrote {
		r, _ := tx.batch.tree.Get(record{key: key})
		size += 2*len(key) + max(len(r.value), r.size) + 64
	}
	return size
}

// take makes a plan's reads and writes those of the batch.
func (b *batch) take(tx *Tx) {
	b.bytes += tx.size()
	maps.Copy(b.keys, tx.touched())
	maps.Copy(b.spans, tx.spans)
	for key, place := range tx.wrote {
		b.writes[key] = b.places + place
	}
	b.places += len(tx.undo)
}

// change is what a batch does to one key in the end.
type change struct {
	key    string
	value  []byte
	delete bool
	base   int64 // revision before
}

// size is an upper bound of what the change takes in a transaction.
func (c change) size() int { return 2*len(c.key) + len(c.value) + 64 }

// changes are the batch's net effects, in the order of the last write of each key.
func (b *batch) changes() ([]change, error) {
	keys := slices.SortedFunc(maps.Keys(b.writes), func(x, y string) int { return b.writes[x] - b.writes[y] })
	list := make([]change, 0, len(keys))
	for _, key := range keys {
		before, had := b.base.Get(record{key: key})
		after, has := b.tree.Get(record{key: key})
		if after.decoded != nil {
			var err error
			if after, err = after.encoded(); err != nil {
				return nil, err
			}
			b.tree.ReplaceOrInsert(after)
		}
		if had == has && bytes.Equal(before.value, after.value) {
			if had {
				b.tree.ReplaceOrInsert(before) // put back as it was, with its revision
			}
			continue
		}
		list = append(list, change{key: key, value: after.value, delete: !has, base: before.rev})
	}
	return list, nil
}

// guards are the conditions that do not belong to a changed key.
func (b *batch) guards(changed []change) []Guard {
	written := make(map[string]struct{}, len(changed))
	for _, c := range changed {
		written[c.key] = struct{}{}
	}
	var list []Guard
	for key := range b.keys {
		if _, ok := written[key]; !ok {
			before, _ := b.base.Get(record{key: key})
			list = append(list, atRevision(key, before.rev))
		}
	}
	for s := range b.spans {
		list = append(list, rangeNotAfter(s.from, s.end, b.newest(s)))
	}
	return list
}

// newest is the revision of the newest key of a range before the batch, those
// that the batch deletes included: the store still has them when it compares.
func (b *batch) newest(s span) (rev int64) {
	b.base.records.AscendRange(record{key: s.from}, record{key: s.end}, func(r record) bool {
		rev = max(rev, r.rev)
		return true
	})
	return rev
}

func prefixEnd(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }
