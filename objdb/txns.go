package objdb

// txn is the transaction of a batch, to be sent with the fence; fits is false
// when the batch, which is then a single plan, is too large for one.
func (b *batch) txn() (t Txn, fits bool, err error) {
	changed, err := b.changes()
	if err != nil || len(changed) == 0 {
		return t, true, err
	}
	t.If = b.guards(changed)
	if len(t.If)+len(changed) > b.maxOps || b.bytes > maxBytes && len(changed) > 1 {
		return t, false, nil
	}
	for _, c := range changed {
		t.If = append(t.If, atRevision(c.key, c.base))
		if c.delete {
			t.Deletes = append(t.Deletes, c.key)
		} else {
			t.Puts = append(t.Puts, KV{Key: c.key, Value: c.value})
		}
	}
	return t, true, nil
}
