package ovsdb

// Index finds the rows of a table by a text computed from them, without
// looking at the other rows.
type Index[T any] struct {
	table *Table[T]
	key   func(T) string
	rows  map[string]map[UUID]*T // never with an empty map
}

// Index adds an index; call it before the table is given to a client. A row
// whose key is empty is not in it.
func (t *Table[T]) Index(key func(T) string) *Index[T] {
	i := &Index[T]{table: t, key: key, rows: map[string]map[UUID]*T{}}
	t.indexes = append(t.indexes, i)
	return i
}

// Rows returns the rows with this key, in no order.
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

// Row returns the only row with this key, or any if there are several.
func (i *Index[T]) Row(key string) (T, bool) {
	if rows := i.Rows(key); len(rows) > 0 {
		return rows[0], true
	}
	var none T
	return none, false
}

// replace follows the change of a row; either may be nil. It is called under
// the table's lock.
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
