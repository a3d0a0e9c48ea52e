package ovsdb

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Operation is one step of a transaction. Make one with the functions below.
type Operation struct {
	Op        string      `json:"op"`
	Table     string      `json:"table,omitempty"`
	UUIDName  string      `json:"uuid-name,omitempty"`
	Row       Row         `json:"row,omitzero"`
	Rows      []Row       `json:"rows,omitzero"`
	Where     []Condition `json:"where,omitzero"`
	Columns   []string    `json:"columns,omitzero"`
	Mutations []Mutation  `json:"mutations,omitzero"`
	Timeout   *int64      `json:"timeout,omitempty"` // milliseconds
	Until     string      `json:"until,omitempty"`
	Comment   string      `json:"comment,omitempty"`
	Lock      string      `json:"lock,omitempty"`
}

// Condition selects rows: all conditions of an operation must hold.
type Condition struct {
	Column   string
	Function string // ==, !=, <, <=, >, >=, includes, excludes
	Value    any
}

// MarshalJSON writes [column, function, value].
func (c Condition) MarshalJSON() ([]byte, error) { return triple(c.Column, c.Function, c.Value) }

// Mutation changes a column in place.
type Mutation struct {
	Column  string
	Mutator string // +=, -=, *=, /=, %=, insert, delete
	Value   any
}

// MarshalJSON writes [column, mutator, value].
func (m Mutation) MarshalJSON() ([]byte, error) { return triple(m.Column, m.Mutator, m.Value) }

func triple(column, function string, value any) ([]byte, error) {
	v, err := encode(reflect.ValueOf(value))
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", column, err)
	}
	return json.Marshal([]any{column, function, v})
}

// Where returns the condition that a column has a value.
func Where(column string, value any) []Condition {
	return []Condition{{Column: column, Function: "==", Value: value}}
}

// All selects every row of a table.
func All() []Condition { return []Condition{} }

// Insert adds a row. The name, unless empty, refers to the row in other operations of the transaction: letters,
// digits and underscores, see UUID.
func Insert(table, name string, row Row) Operation {
	if row == nil {
		row = Row{}
	}
	return Operation{Op: "insert", Table: table, UUIDName: name, Row: row}
}

// Select reads columns; all if none are named.
func Select(table string, where []Condition, columns ...string) Operation {
	return Operation{Op: "select", Table: table, Where: where, Columns: columns}
}

// Update overwrites columns.
func Update(table string, where []Condition, row Row) Operation {
	return Operation{Op: "update", Table: table, Where: where, Row: row}
}

// Mutate changes columns in place.
func Mutate(table string, where []Condition, mutations ...Mutation) Operation {
	return Operation{Op: "mutate", Table: table, Where: where, Mutations: mutations}
}

// WaitEqual makes the transaction fail unless the selected rows are, within
// the timeout, exactly the given ones in the named columns. With a timeout of
// zero it turns read-modify-write into compare-and-swap.
func WaitEqual(timeout time.Duration, table string, where []Condition, columns []string, rows ...Row) Operation {
	ms := timeout.Milliseconds()
	if rows == nil {
		rows = []Row{}
	}
	return Operation{Op: "wait", Table: table, Where: where, Columns: columns, Until: "==", Rows: rows, Timeout: &ms}
}

// Comment is written to the server's log with the transaction.
func Comment(text string) Operation { return Operation{Op: "comment", Comment: text} }

// assertLock makes the transaction fail unless this connection holds the lock.
func assertLock(lock string) Operation { return Operation{Op: "assert", Lock: lock} }
