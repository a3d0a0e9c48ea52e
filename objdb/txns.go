package objdb

// txns cuts a batch into transactions, each to be sent with the fence.
//
// A batch of several plans always fits into one. A single plan may not: then
// what it only read is checked first, and its writes follow in their order,
// each guarded by the revision it replaces. Such a plan is not atomic. Its
// author orders the writes so that every prefix of them is a state that a
// second run, or the leader's reconciliation, completes.
func (b *batch) txns() []Txn {
	changed := b.changes()
	if len(changed) == 0 {
		return nil
	}
	cut := cutter{}
	for _, g := range b.guards(changed) {
		cut.guard(g)
	}
	if len(cut.open.If)+len(changed) > maxOps || b.bytes > maxBytes {
		cut.next() // does not fit in one anyway
	}
	for _, c := range changed {
		cut.change(c)
	}
	cut.next()
	return cut.done
}

// cutter fills one transaction after the other.
type cutter struct {
	done []Txn
	open Txn
	size int
}

func (c *cutter) next() {
	if len(c.open.If) > 0 {
		c.done = append(c.done, c.open)
	}
	c.open, c.size = Txn{}, 0
}

func (c *cutter) guard(g Guard) {
	if len(c.open.If) >= maxOps {
		c.next()
	}
	c.open.If = append(c.open.If, g)
}

func (c *cutter) change(ch change) {
	size := 2*len(ch.key) + len(ch.value) + 64
	if len(c.open.If) >= maxOps || c.size > 0 && c.size+size > maxBytes {
		c.next()
	}
	c.size += size
	c.open.If = append(c.open.If, atRevision(ch.key, ch.base))
	if ch.delete {
		c.open.Deletes = append(c.open.Deletes, ch.key)
	} else {
		c.open.Puts = append(c.open.Puts, KV{Key: ch.key, Value: ch.value})
	}
}
