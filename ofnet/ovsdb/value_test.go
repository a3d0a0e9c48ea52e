package ovsdb

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pointer[T any](v T) *T { return &v }

func TestValuesHaveTheWireFormOfTheRFC(t *testing.T) {
	const id = UUID("550e8400-e29b-41d4-a716-446655440000")
	for _, c := range []struct {
		value any
		wire  string
	}{
		{"vvport1", `"vvport1"`},
		{42, `42`},
		{uint16(65279), `65279`},
		{-1, `-1`},
		{true, `true`},
		{2.5, `2.5`},
		{id, `["uuid","` + string(id) + `"]`},
		{UUID("new_port"), `["named-uuid","new_port"]`},
		{(*int)(nil), `["set",[]]`},
		{pointer(7), `7`},
		{[]string{}, `["set",[]]`},
		{[]string{"a", "b"}, `["set",["a","b"]]`},
		{[]UUID{id}, `["set",[["uuid","` + string(id) + `"]]]`},
		{map[string]string{"key": "flow", "dst_port": "4789"}, `["map",[["dst_port","4789"],["key","flow"]]]`},
		{map[string]int{}, `["map",[]]`},
	} {
		wire, err := encode(reflect.ValueOf(c.value))
		if err != nil {
			t.Errorf("%#v: %v", c.value, err)
			continue
		}
		raw, err := json.Marshal(wire)
		if err != nil {
			t.Fatal(err)
		}
		if string(raw) != c.wire {
			t.Errorf("%#v is written %s, want %s", c.value, raw, c.wire)
		}
		if v, ok := c.value.(UUID); ok && v.named() {
			continue // the server never sends these
		}
		back := reflect.New(reflect.TypeOf(c.value))
		if err := decode(raw, back.Elem()); err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if diff := cmp.Diff(c.value, back.Elem().Interface()); diff != "" {
			t.Errorf("%s is read differently:\n%s", raw, diff)
		}
	}
}

func TestABareAtomIsASetOfOne(t *testing.T) {
	var set []string
	if err := decode(json.RawMessage(`"OpenFlow13"`), reflect.ValueOf(&set).Elem()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"OpenFlow13"}, set); diff != "" {
		t.Error(diff)
	}
	var optional *int
	if err := decode(json.RawMessage(`["set",[5]]`), reflect.ValueOf(&optional).Elem()); err != nil {
		t.Fatal(err)
	}
	if optional == nil || *optional != 5 {
		t.Errorf("a set with one element is read as %v", optional)
	}
}

func TestWrongValuesAreErrors(t *testing.T) {
	for _, c := range []struct {
		wire string
		into any
	}{
		{`5`, new(string)},
		{`null`, new(string)},
		{`"x"`, new(int)},
		{`1.5`, new(int)},
		{`99999999999999999999`, new(int64)},
		{`300`, new(uint8)},
		{`-1`, new(uint16)},
		{`1`, new(bool)},
		{`1e999`, new(float64)},
		{`"x"`, new(UUID)},
		{`["uuid"]`, new(UUID)},
		{`["uuid",5]`, new(UUID)},
		{`["named-uuid","x"]`, new(UUID)},
		{`["set",["a","b"]]`, new(*string)},
		{`["set","a"]`, new([]string)},
		{`["set",null]`, new([]string)},
		{`["set",[1]]`, new([]string)},
		{`["set",[]]`, new(string)},
		{`"x"`, new(map[string]string)},
		{`["map",[["a"]]]`, new(map[string]string)},
		{`["map",[["a","b","c"]]]`, new(map[string]string)},
		{`["map",[["a",1]]]`, new(map[string]string)},
		{`["map",5]`, new(map[string]string)},
	} {
		if err := decode(json.RawMessage(c.wire), reflect.ValueOf(c.into).Elem()); err == nil {
			t.Errorf("%s was accepted as %T", c.wire, c.into)
		}
	}
	for _, v := range []any{math.NaN(), math.Inf(1), uint64(math.MaxUint64), struct{}{}, []any{[]int{1}}, map[string]any{"a": nil}} {
		if wire, err := encode(reflect.ValueOf(v)); err == nil {
			t.Errorf("%#v was written as %v", v, wire)
		}
	}
}

// FuzzDecode: any input is a value or an error, and a decoded value can be encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`"a"`, `1`, `-1.5e3`, `true`, `["uuid","a-b"]`, `["set",[1,2]]`, `["set",[]]`,
		`["map",[["a","b"]]]`, `["map",[]]`, `[`, `null`, `[[[[]]]]`, `{"a":1}`} {
		f.Add([]byte(seed))
	}
	types := []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](), reflect.TypeFor[float64](),
		reflect.TypeFor[bool](), reflect.TypeFor[UUID](), reflect.TypeFor[*int](), reflect.TypeFor[[]string](),
		reflect.TypeFor[[]UUID](), reflect.TypeFor[map[string]string](), reflect.TypeFor[map[int]UUID](),
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, typ := range types {
			value := reflect.New(typ).Elem()
			if decode(raw, value) != nil {
				continue
			}
			wire, err := encode(value)
			if err != nil {
				t.Fatalf("%s as %s cannot be written again: %v", raw, typ, err)
			}
			if _, err := json.Marshal(wire); err != nil {
				t.Fatalf("%s as %s cannot be marshalled: %v", raw, typ, err)
			}
		}
	})
}
