package ovsdb

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
)

// Table is the client's copy of one table, as structs of type T. Fields have the tag `ovsdb:"column"`; only those
// columns are watched. A field tagged "_uuid" holds the row's UUID. Returned rows are shared: do not modify them.
type Table[T any] struct {
	name     string
	layout   layout
	err      error // in the struct, reported by New
	onChange func(Change[T])
	indexes  []*Index[T]

	mu   *sync.RWMutex // the client's: all tables change together
	rows map[UUID]*T
}

// Change is a change of a row. Old is nil for a new row, New for a deleted one.
type Change[T any] struct{ Old, New *T }

// NewTable declares a table to watch. onChange, which may be nil, is called for every change, in order, after the
// whole transaction is in the copy; it must not block and must not wait for the client.
func NewTable[T any](name string, onChange func(Change[T])) *Table[T] {
	t := &Table[T]{name: name, onChange: onChange, mu: &sync.RWMutex{}, rows: map[UUID]*T{}}
	t.layout, t.err = layoutOf(reflect.TypeFor[T]())
	return t
}

// Get returns a row.
func (t *Table[T]) Get(id UUID) (T, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if row := t.rows[id]; row != nil {
		return *row, true
	}
	var none T
	return none, false
}

// Find returns any row for which fits returns true.
func (t *Table[T]) Find(fits func(T) bool) (T, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, row := range t.rows {
		if fits(*row) {
			return *row, true
		}
	}
	var none T
	return none, false
}

// Rows returns all rows, unordered.
func (t *Table[T]) Rows() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	rows := make([]T, 0, len(t.rows))
	for _, row := range t.rows {
		rows = append(rows, *row)
	}
	return rows
}

// Watched is a Table of any type.
type Watched interface {
	tableName() string
	bind(mu *sync.RWMutex) error
	columns() []string
	check(s databaseSchema) error
	// decode decodes an update, or a snapshot of the whole table, without changing the copy. The returned function,
	// called under the lock, changes it and returns the events to deliver.
	decode(updates map[UUID]rowUpdate, snapshot bool) (commit func() []func(), err error)
}

// rowUpdate is a row of an update notification; without new the row was deleted.
type rowUpdate struct {
	New map[string]json.RawMessage `json:"new"`
}

func (t *Table[T]) tableName() string { return t.name }
func (t *Table[T]) columns() []string { return t.layout.columns }

func (t *Table[T]) bind(mu *sync.RWMutex) error {
	t.mu = mu
	return t.err
}

func (t *Table[T]) check(s databaseSchema) error {
	return s.check(t.name, reflect.TypeFor[T](), t.layout)
}

func (t *Table[T]) decode(updates map[UUID]rowUpdate, snapshot bool) (commit func() []func(), err error) {
	fresh := make(map[UUID]*T, len(updates)) // nil: deleted
	for id, update := range updates {
		fresh[id] = nil
		if update.New == nil {
			continue
		}
		row := new(T)
		if err := t.layout.decodeRow(id, update.New, reflect.ValueOf(row).Elem()); err != nil {
			return nil, fmt.Errorf("table %s, row %s: %w", t.name, id, err)
		}
		fresh[id] = row
	}
	return func() []func() { return t.commit(fresh, snapshot) }, nil
}

func (t *Table[T]) commit(fresh map[UUID]*T, snapshot bool) (events []func()) {
	if snapshot {
		for id := range t.rows {
			if _, ok := fresh[id]; !ok {
				fresh[id] = nil // deleted: the snapshot does not have it
			}
		}
	}
	for id, row := range fresh {
		old := t.rows[id]
		if row == nil {
			delete(t.rows, id)
		} else {
			t.rows[id] = row
		}
		for _, index := range t.indexes {
			index.replace(id, old, row)
		}
		if t.onChange != nil && !reflect.DeepEqual(old, row) {
			events = append(events, func() { t.onChange(Change[T]{Old: old, New: row}) })
		}
	}
	return events
}
