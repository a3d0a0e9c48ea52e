package ovsdb

// Index finds the rows of a table by a key computed from each, without a scan of the table.
type Index[T any] struct {
	table *Table[T]
	key   func(T) string
	rows  map[string]map[UUID]*T // has no empty map
}

// Index adds an index; call it before the table is passed to a client. Rows with an empty key are not indexed.
func (t *Table[T]) Index(key func(T) string) *Index[T] {
	i := &Index[T]{table: t, key: key, rows: map[string]map[UUID]*T{}}
	t.indexes = append(t.indexes, i)
	return i
}

// Rows returns the rows with this key, unordered.
func (i *Index[T]) Rows(key string) []T {
	i.table.mu.RLock()
	defer i.table.mu.RUnlock()
	found := i.rows[key]
	rows := make([]T, 0, len(found))
	for _, row := range found {
		rows = append(rows, *row)
	}
	return rows
}

// Row returns the row with this key, or any one if there are several.
func (i *Index[T]) Row(key string) (T, bool) {
	if rows := i.Rows(key); len(rows) > 0 {
		return rows[0], true
	}
	var none T
	return none, false
}

// replace applies the change of a row; old or now may be nil. The caller holds the table's lock.
func (i *Index[T]) replace(id UUID, old, now *T) {
	if old != nil {
		key := i.key(*old)
		delete(i.rows[key], id)
		if len(i.rows[key]) == 0 {
			delete(i.rows, key)
		}
	}
	if now == nil {
		return
	}
	key := i.key(*now)
	if key == "" {
		return
	}
	if i.rows[key] == nil {
		i.rows[key] = map[UUID]*T{}
	}
	i.rows[key][id] = now
}
