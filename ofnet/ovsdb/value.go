package ovsdb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// UUID identifies a row. A string without hyphens is not the UUID of an existing row but the name given to an
// Insert of the same transaction.
type UUID string

var uuidType = reflect.TypeFor[UUID]()

// named reports whether u refers to a row inserted by the same transaction. The protocol allows no hyphen in such
// names, and every real UUID has some.
func (u UUID) named() bool { return !strings.Contains(string(u), "-") }

// encode turns a Go value into its wire form: scalars are atoms, a pointer is an optional value, a slice is a set,
// a map is a map.
func encode(v reflect.Value) (any, error) {
	if !v.IsValid() {
		return nil, fmt.Errorf("untyped nil is no value")
	}
	switch v.Kind() {
	case reflect.Interface:
		return encode(v.Elem())
	case reflect.Pointer:
		if v.IsNil() {
			return []any{"set", []any{}}, nil
		}
		return encodeAtom(v.Elem())
	case reflect.Slice:
		return encodeSet(v)
	case reflect.Map:
		return encodeMap(v)
	default:
		return encodeAtom(v)
	}
}

func encodeSet(v reflect.Value) (any, error) {
	elements := make([]any, 0, v.Len())
	for i := range v.Len() {
		atom, err := encodeAtom(v.Index(i))
		if err != nil {
			return nil, err
		}
		elements = append(elements, atom)
	}
	return []any{"set", elements}, nil
}

// encodeMap sorts by key, so that equal maps are equal on the wire.
func encodeMap(v reflect.Value) (any, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return cmp.Compare(fmt.Sprint(a.Interface()), fmt.Sprint(b.Interface()))
	})
	pairs := make([]any, 0, len(keys))
	for _, k := range keys {
		key, err := encodeAtom(k)
		if err != nil {
			return nil, err
		}
		value, err := encodeAtom(v.MapIndex(k))
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, []any{key, value})
	}
	return []any{"map", pairs}, nil
}

func encodeAtom(v reflect.Value) (any, error) {
	switch {
	case v.Type() == uuidType:
		tag := "uuid"
		if UUID(v.String()).named() {
			tag = "named-uuid"
		}
		return []any{tag, v.String()}, nil
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Bool:
		return v.Bool(), nil
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		if v.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("integer %d: out of range", v.Uint())
		}
		return v.Uint(), nil
	case v.CanFloat():
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return nil, fmt.Errorf("real %v: not finite", v.Float())
		}
		return v.Float(), nil
	}
	return nil, fmt.Errorf("type %s: no wire form", v.Type())
}

// decode is the inverse of encode. A set of one element may be the bare element, which is how the server prefers
// to write it.
func decode(raw json.RawMessage, into reflect.Value) error {
	switch into.Kind() {
	case reflect.Pointer:
		return decodeOptional(raw, into)
	case reflect.Slice:
		return decodeSet(raw, into)
	case reflect.Map:
		return decodeMap(raw, into)
	default:
		return decodeAtom(raw, into)
	}
}

func decodeOptional(raw json.RawMessage, into reflect.Value) error {
	elements, err := elementsOf(raw)
	if err != nil {
		return err
	}
	switch len(elements) {
	case 0:
		into.SetZero()
		return nil
	case 1:
		value := reflect.New(into.Type().Elem())
		if err := decodeAtom(elements[0], value.Elem()); err != nil {
			return err
		}
		into.Set(value)
		return nil
	}
	return fmt.Errorf("set of %d: at most one element expected", len(elements))
}

func decodeSet(raw json.RawMessage, into reflect.Value) error {
	elements, err := elementsOf(raw)
	if err != nil {
		return err
	}
	set := reflect.MakeSlice(into.Type(), len(elements), len(elements))
	for i, element := range elements {
		if err := decodeAtom(element, set.Index(i)); err != nil {
			return err
		}
	}
	into.Set(set)
	return nil
}

func decodeMap(raw json.RawMessage, into reflect.Value) error {
	tag, body, ok := tagged(raw)
	if !ok || tag != "map" {
		return fmt.Errorf("value %s: map expected", brief(raw))
	}
	var pairs [][]json.RawMessage
	if err := json.Unmarshal(body, &pairs); err != nil {
		return fmt.Errorf("map %s: %w", brief(raw), err)
	}
	typ := into.Type()
	m := reflect.MakeMapWithSize(typ, len(pairs))
	for _, pair := range pairs {
		if len(pair) != 2 {
			return fmt.Errorf("map %s: entry of %d instead of 2 values", brief(raw), len(pair))
		}
		key, value := reflect.New(typ.Key()).Elem(), reflect.New(typ.Elem()).Elem()
		if err := decodeAtom(pair[0], key); err != nil {
			return err
		}
		if err := decodeAtom(pair[1], value); err != nil {
			return err
		}
		m.SetMapIndex(key, value)
	}
	into.Set(m)
	return nil
}

func decodeAtom(raw json.RawMessage, into reflect.Value) error {
	text := string(bytes.TrimSpace(raw))
	switch {
	case into.Type() == uuidType:
		tag, body, ok := tagged(raw)
		var name string
		if !ok || tag != "uuid" || unmarshalString(body, &name) != nil {
			return fmt.Errorf("value %s: uuid expected", brief(raw))
		}
		into.SetString(name)
	case into.Kind() == reflect.String:
		var s string
		if unmarshalString(raw, &s) != nil {
			return fmt.Errorf("value %s: string expected", brief(raw))
		}
		into.SetString(s)
	case into.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("value %s: boolean expected", brief(raw))
		}
		into.SetBool(text == "true")
	case into.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || into.OverflowInt(n) {
			return fmt.Errorf("value %s: integer of %d bits expected", brief(raw), into.Type().Bits())
		}
		into.SetInt(n)
	case into.CanUint():
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || into.OverflowUint(n) {
			return fmt.Errorf("value %s: unsigned integer of %d bits expected", brief(raw), into.Type().Bits())
		}
		into.SetUint(n)
	case into.CanFloat():
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Errorf("value %s: real number expected", brief(raw))
		}
		into.SetFloat(f)
	default:
		return fmt.Errorf("type %s: no wire form", into.Type())
	}
	return nil
}

// unmarshalString refuses null, which encoding/json would decode as "".
func unmarshalString(raw json.RawMessage, s *string) error {
	if b := bytes.TrimSpace(raw); len(b) == 0 || b[0] != '"' {
		return fmt.Errorf("no string")
	}
	return json.Unmarshal(raw, s)
}

// elementsOf returns the atoms of a set; a bare atom is a set of one.
func elementsOf(raw json.RawMessage) ([]json.RawMessage, error) {
	tag, body, ok := tagged(raw)
	if !ok || tag != "set" {
		return []json.RawMessage{raw}, nil
	}
	elements := []json.RawMessage{}
	if err := json.Unmarshal(body, &elements); err != nil || elements == nil {
		return nil, fmt.Errorf("value %s: set expected", brief(raw))
	}
	return elements, nil
}

// tagged splits ["tag", body].
func tagged(raw json.RawMessage) (tag string, body json.RawMessage, ok bool) {
	if b := bytes.TrimSpace(raw); len(b) == 0 || b[0] != '[' {
		return "", nil, false
	}
	var pair []json.RawMessage
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || unmarshalString(pair[0], &tag) != nil {
		return "", nil, false
	}
	return tag, pair[1], true
}

// brief shortens what a peer sent for use in an error.
func brief(raw []byte) string {
	const limit = 80
	if len(raw) > limit {
		return string(raw[:limit]) + "..."
	}
	return string(raw)
}
