// Package jsonstream writes JSON whose long parts are computed while they are written, so that a list of any
// length takes the memory of one item.
//
// A value is anything that encoding/json can marshal, or one of three types that are computed late: an Array or a Map,
// whose members are computed one after the other, and an Object, a struct with some late fields. They can be nested.
// The text is what encoding/json would write for the same values; a json.RawMessage is written as it is.
package jsonstream

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
)

// Array generates the items of an array. It calls item for each, and returns the first error of item or its own.
type Array func(item func(value any) error) error

// Map generates the members of an object, in the order in which they are written.
type Map func(member func(key string, value any) error) error

// Object is a struct, or a pointer to one, with late values for some of its
// fields, by their JSON names. A late Array in a field with omitempty is left
// out if it has no items.
type Object struct {
	Of   any
	Late map[string]any
}

// Write writes a value and a newline. It returns errors of the value's parts and of out; the text written
// before an error is incomplete.
func Write(out io.Writer, value any) error {
	w := writer{out: out}
	w.encoder = json.NewEncoder(&w.part)
	if err := w.value("", value); err != nil {
		return err
	}
	return w.text("\n")
}

type writer struct {
	out     io.Writer
	part    bytes.Buffer // the value being written
	encoder *json.Encoder
}

func (w *writer) text(s string) error {
	_, err := io.WriteString(w.out, s)
	return err
}

// value writes a value after lead: the name of a member, or the comma between two.
func (w *writer) value(lead string, value any) error {
	switch v := value.(type) {
	case Array:
		_, err := w.array(lead, v, false)
		return err
	case Map:
		return w.members(lead, v)
	case Object:
		return w.object(lead, v)
	}
	text, isText := value.(json.RawMessage)
	if !isText {
		w.part.Reset()
		if err := w.encoder.Encode(value); err != nil {
			return err
		}
		text = bytes.TrimSuffix(w.part.Bytes(), []byte("\n"))
	}
	if err := w.text(lead); err != nil {
		return err
	}
	_, err := w.out.Write(text)
	return err
}

// array writes an array, or nothing if it is empty and may be left out.
func (w *writer) array(lead string, items Array, omitEmpty bool) (written bool, err error) {
	before := lead + "["
	err = items(func(item any) error {
		lead := before
		before = ","
		return w.value(lead, item)
	})
	switch {
	case err != nil:
		return false, err
	case before == ",":
		return true, w.text("]")
	case omitEmpty:
		return false, nil
	}
	return true, w.text(lead + "[]")
}

func (w *writer) members(lead string, members Map) error {
	before := lead + "{"
	err := members(func(key string, value any) error {
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		lead := before + string(name) + ":"
		before = ","
		return w.value(lead, value)
	})
	switch {
	case err != nil:
		return err
	case before == ",":
		return w.text("}")
	}
	return w.text(lead + "{}")
}

func (w *writer) object(lead string, o Object) error {
	v := reflect.Indirect(reflect.ValueOf(o.Of))
	before := lead + "{"
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" {
			name = v.Type().Field(i).Name
		}
		omitEmpty := options == "omitempty"
		late, isLate := o.Late[name]
		if !isLate && omitEmpty && empty(v.Field(i)) {
			continue
		}
		field := before + `"` + name + `":`
		written := true
		var err error
		switch items, isArray := late.(Array); {
		case isArray:
			written, err = w.array(field, items, omitEmpty)
		case isLate:
			err = w.value(field, late)
		default:
			err = w.value(field, v.Field(i).Interface())
		}
		if err != nil {
			return err
		}
		if written {
			before = ","
		}
	}
	if before != "," {
		return w.text(lead + "{}")
	}
	return w.text("}")
}

// empty reports whether encoding/json omits a value with omitempty.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
