package ovsdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// shape is the type of a column.
type shape struct {
	kind  string // "atom", "optional", "set" or "map"
	key   string // type of the atom, of the elements, or of the keys
	value string // type of the values of a map
}

func (s shape) String() string {
	if s.kind == "map" {
		return fmt.Sprintf("map of %s to %s", s.key, s.value)
	}
	return s.kind + " of " + s.key
}

// shapeOfType returns the type of column that a Go type can hold.
func shapeOfType(typ reflect.Type) (shape, error) {
	var s shape
	var err error
	switch typ.Kind() {
	case reflect.Pointer:
		s.kind = "optional"
		s.key, err = atomName(typ.Elem())
	case reflect.Slice:
		s.kind = "set"
		s.key, err = atomName(typ.Elem())
	case reflect.Map:
		s.kind = "map"
		if s.key, err = atomName(typ.Key()); err == nil {
			s.value, err = atomName(typ.Elem())
		}
	default:
		s.kind = "atom"
		s.key, err = atomName(typ)
	}
	return s, err
}

func atomName(typ reflect.Type) (string, error) {
	zero := reflect.Zero(typ)
	switch {
	case typ == uuidType:
		return "uuid", nil
	case typ.Kind() == reflect.String:
		return "string", nil
	case typ.Kind() == reflect.Bool:
		return "boolean", nil
	case zero.CanInt(), zero.CanUint():
		return "integer", nil
	case zero.CanFloat():
		return "real", nil
	}
	return "", fmt.Errorf("type %s: no wire form", typ)
}

// databaseSchema is the part of the server's schema that is checked.
type databaseSchema struct {
	Version string `json:"version"`
	Tables  map[string]struct {
		Columns map[string]columnSchema `json:"columns"`
	} `json:"tables"`
}

type columnSchema struct {
	Type columnType `json:"type"`
}

// columnType is a type of RFC 7047, 3.2: the name of an atom, or an object.
type columnType shape

// UnmarshalJSON reads either form.
func (t *columnType) UnmarshalJSON(raw []byte) error {
	var full struct {
		Key   baseType  `json:"key"`
		Value *baseType `json:"value"`
		Min   *int      `json:"min"`
		Max   any       `json:"max"`
	}
	if b := bytes.TrimSpace(raw); len(b) > 0 && b[0] == '"' {
		*t = columnType{kind: "atom"}
		return json.Unmarshal(raw, &t.key)
	}
	if err := json.Unmarshal(raw, &full); err != nil {
		return err
	}
	*t = columnType{kind: "atom", key: string(full.Key)}
	switch {
	case full.Value != nil:
		t.kind, t.value = "map", string(*full.Value)
	case full.Max != nil && full.Max != 1.0:
		t.kind = "set"
	case full.Min != nil && *full.Min == 0:
		t.kind = "optional"
	}
	return nil
}

// baseType is the name of an atom, or an object with constraints, which only the server checks.
type baseType string

// UnmarshalJSON reads either form.
func (t *baseType) UnmarshalJSON(raw []byte) error {
	if b := bytes.TrimSpace(raw); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(raw, (*string)(t))
	}
	var full struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &full); err != nil {
		return err
	}
	*t = baseType(full.Type)
	return nil
}

// check compares a table's struct with the server's schema, so that a column that an older server lacks is named
// once, at the start, and does not cause later errors.
func (s databaseSchema) check(table string, typ reflect.Type, l layout) error {
	have, ok := s.Tables[table]
	if !ok {
		return fmt.Errorf("table %s: not in the schema %s of the server", table, s.Version)
	}
	for _, column := range l.columns {
		got, ok := have.Columns[column]
		if !ok {
			return fmt.Errorf("column %s.%s: not in the schema %s of the server", table, column, s.Version)
		}
		want, err := shapeOfType(typ.Field(l.fields[column]).Type)
		if err != nil {
			return fmt.Errorf("column %s.%s: %w", table, column, err)
		}
		if want != shape(got.Type) {
			return fmt.Errorf("column %s.%s: server has %s, we expect %s", table, column, shape(got.Type), want)
		}
	}
	return nil
}
