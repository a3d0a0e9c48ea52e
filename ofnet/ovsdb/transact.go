package ovsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/contiv/netplugin/utils/fault"
)

// Result is the result of one operation.
type Result struct {
	Count int                          // rows affected by update, mutate, delete
	UUID  UUID                         // row created by insert
	Rows  []map[string]json.RawMessage // rows returned by select; see decodeRow
}

// OperationError names the operation for which the server refused a transaction, and the reason. No operation of
// such a transaction takes effect.
type OperationError struct {
	Index     int       // of the operation; the number of operations if the commit itself failed
	Operation Operation // zero if the commit failed
	Reason    string    // "constraint violation", "timed out", ...
	Details   string
}

func (e *OperationError) Error() string {
	what := "commit"
	if e.Operation.Op != "" {
		what = fmt.Sprintf("operation %d (%s %s)", e.Index, e.Operation.Op, e.Operation.Table)
	}
	if e.Details == "" {
		return fmt.Sprintf("ovsdb transaction: %s: %s", what, e.Reason)
	}
	return fmt.Sprintf("ovsdb transaction: %s: %s: %s", what, e.Reason, e.Details)
}

// decodeRow fills a struct with `ovsdb` tags from a row of a Result.
func decodeRow(row map[string]json.RawMessage, into any) error {
	value := reflect.ValueOf(into)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return fmt.Errorf("decode row: pointer to a struct expected, not %T", into)
	}
	l, err := layoutOf(value.Type().Elem())
	if err != nil {
		return err
	}
	return l.decodeRow("", row, value.Elem())
}

// Transact runs the operations as one transaction. Either all of them take effect and there is a result for each,
// or none does and an error is returned; if the connection breaks meanwhile, it is unknown which.
func (c *connection) Transact(ctx context.Context, database string, ops ...Operation) ([]Result, error) {
	params := make([]any, 0, len(ops)+1)
	params = append(params, database)
	for _, op := range ops {
		params = append(params, op)
	}
	var results []Result
	err := c.call(ctx, "transact", params, func(raw json.RawMessage) error {
		var refused, err error
		results, refused, err = parseResults(raw, ops)
		if err != nil {
			return err
		}
		return keepConn{refused}.orNil()
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// parseResults reads the response to a transaction: one element per operation, plus one at the end if the commit
// failed. After an element with an error the rest are null. refused is the server's refusal, err a malformed
// response.
func parseResults(raw json.RawMessage, ops []Operation) (results []Result, refused, err error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, nil, fmt.Errorf("answer to transact %s: %w", brief(raw), err)
	}
	if len(elements) < len(ops) || len(elements) > len(ops)+1 {
		return nil, nil, fmt.Errorf("answer to transact: %d results for %d operations", len(elements), len(ops))
	}
	results = make([]Result, len(ops))
	for i, element := range elements {
		var wire struct {
			Count   int                          `json:"count"`
			UUID    json.RawMessage              `json:"uuid"`
			Rows    []map[string]json.RawMessage `json:"rows"`
			Error   *string                      `json:"error"`
			Details string                       `json:"details"`
		}
		if bytes.Equal(element, []byte("null")) {
			return nil, nil, fmt.Errorf("answer to transact: operation %d has no result and none before it failed", i)
		}
		if err := json.Unmarshal(element, &wire); err != nil {
			return nil, nil, fmt.Errorf("answer to transact: result %d: %w", i, err)
		}
		if wire.Error != nil {
			refusal := &OperationError{Index: i, Reason: *wire.Error, Details: wire.Details}
			if i < len(ops) {
				refusal.Operation = ops[i]
			}
			return nil, fault.New(faultKind(*wire.Error), "%w", refusal), nil
		}
		if i == len(ops) {
			return nil, nil, fmt.Errorf("answer to transact: %d results for %d operations", len(elements), len(ops))
		}
		results[i] = Result{Count: wire.Count, Rows: wire.Rows}
		if wire.UUID != nil {
			if err := decodeAtom(wire.UUID, reflect.ValueOf(&results[i].UUID).Elem()); err != nil {
				return nil, nil, fmt.Errorf("answer to transact: result %d: %w", i, err)
			}
		}
	}
	return results, nil, nil
}

// faultKind maps the reasons of RFC 7047, 5.2.
func faultKind(reason string) fault.Kind {
	switch reason {
	case "timed out", "not owner", "aborted":
		return fault.Conflict
	case "constraint violation", "referential integrity violation", "domain error", "range error":
		return fault.Invalid
	case "resources exhausted", "I/O error":
		return fault.Unavailable
	}
	return fault.Internal
}
