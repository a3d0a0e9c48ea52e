package ovsdb

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Row is a full or partial row to write: values by column. See encode for the supported Go types.
type Row map[string]any

// MarshalJSON writes the wire form.
func (r Row) MarshalJSON() ([]byte, error) {
	wire := make(map[string]any, len(r))
	for column, value := range r {
		v, err := encode(reflect.ValueOf(value))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
		wire[column] = v
	}
	return json.Marshal(wire)
}

// uuidColumn is the name of the column that every row has. The server does not send it with a row; it is set from
// the row's key.
const uuidColumn = "_uuid"

// layout is the description of a table by the tags of a struct.
type layout struct {
	columns []string       // without _uuid, sorted
	fields  map[string]int // by column, _uuid included
}

// layoutOf reads the `ovsdb:"column"` tags; fields without one are not part of
// the table.
func layoutOf(typ reflect.Type) (layout, error) {
	l := layout{fields: map[string]int{}}
	if typ.Kind() != reflect.Struct {
		return l, fmt.Errorf("row type %s: struct expected", typ)
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, ok := field.Tag.Lookup("ovsdb")
		if !ok {
			continue
		}
		if !field.IsExported() {
			return l, fmt.Errorf("row type %s: field %s is not exported", typ, field.Name)
		}
		if _, err := shapeOfType(field.Type); err != nil {
			return l, fmt.Errorf("row type %s: field %s: %w", typ, field.Name, err)
		}
		l.fields[name] = i
		if name != uuidColumn {
			l.columns = append(l.columns, name)
		}
	}
	slices.Sort(l.columns)
	return l, nil
}

// decodeRow fills a struct from the columns of a row. Columns without a field are ignored; fields without a column
// have the zero value.
func (l layout) decodeRow(id UUID, row map[string]json.RawMessage, into reflect.Value) error {
	for column, raw := range row {
		index, ok := l.fields[column]
		if !ok {
			continue
		}
		if err := decode(raw, into.Field(index)); err != nil {
			return fmt.Errorf("column %s: %w", column, err)
		}
	}
	if index, ok := l.fields[uuidColumn]; ok && id != "" {
		into.Field(index).SetString(string(id))
	}
	return nil
}
