package contivmodel

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// segments and types as clients of the original controller know them.
var wire = map[string]string{
	"aciGws": "aciGw", "appProfiles": "appProfile", "Bgps": "Bgp", "endpointGroups": "endpointGroup",
	"extContractsGroups": "extContractsGroup", "globals": "global", "netprofiles": "netprofile",
	"networks": "network", "policys": "policy", "rules": "rule", "serviceLBs": "serviceLB",
	"tenants": "tenant", "volumes": "volume", "volumeProfiles": "volumeProfile",
}

func TestKindsAreThoseOfTheWire(t *testing.T) {
	if got := len(Kinds()); got != len(wire) {
		t.Errorf("%d kinds, want %d", got, len(wire))
	}
	for segment, typ := range wire {
		k, ok := KindBySegment(segment)
		if !ok || k.Type != typ {
			t.Errorf("segment %s: kind %q, want %q", segment, k.Type, typ)
		}
		if again, ok := KindByType(typ); !ok || again.Segment != segment {
			t.Errorf("type %s: segment %q, want %q", typ, again.Segment, segment)
		}
	}
	for _, unknown := range []string{"", "endpoints", "Networks", "policies"} {
		if _, ok := KindBySegment(unknown); ok {
			t.Errorf("segment %q is known", unknown)
		}
	}
	if !slices.IsSortedFunc(Kinds(), func(a, b Kind) int {
		return strings.Compare(strings.ToLower(a.Segment), strings.ToLower(b.Segment))
	}) {
		t.Error("kinds are not sorted")
	}
}

// readField trusts the tags; this test checks that it knows them all.
func TestTagsAreUnderstood(t *testing.T) {
	numeric := []string{"key", "max", "min"}
	textual := []string{"rule", "oneof", "default", "unless"}
	bare := []string{"required", "changeable", "unchecked"}
	for _, d := range declarations {
		typ := reflect.TypeOf(d.zero).Elem()
		for i := range typ.NumField() {
			sf := typ.Field(i)
			for item := range strings.FieldsSeq(sf.Tag.Get("model")) {
				what, value, hasValue := strings.Cut(item, "=")
				_, err := strconv.Atoi(value)
				switch {
				case slices.Contains(numeric, what) && err == nil,
					slices.Contains(textual, what) && value != "",
					slices.Contains(bare, what) && !hasValue:
				default:
					t.Errorf("%s.%s: %q is not understood", typ.Name(), sf.Name, item)
				}
				if _, known := patterns[value]; what == "rule" && !known {
					t.Errorf("%s.%s: no pattern %q", typ.Name(), sf.Name, value)
				}
			}
			if column, ok := sf.Tag.Lookup("column"); ok {
				if position, heading, _ := strings.Cut(column, " "); heading == "" || position < "1" {
					t.Errorf("%s.%s: column %q is not understood", typ.Name(), sf.Name, column)
				}
			}
		}
	}
}

func TestDeclarationsAreConsistent(t *testing.T) {
	for _, k := range Kinds() {
		o := k.New()
		var parts []string
		for i, f := range k.KeyFields() {
			if f.KeyPart != i+1 {
				t.Errorf("%s: key part %d is missing", k.Type, i+1)
			}
			parts = append(parts, "part"+strconv.Itoa(i))
			if err := f.Set(o, parts[i]); err != nil {
				t.Error(err)
			}
		}
		if want := strings.Join(parts, ":"); o.ModelKey() != want {
			t.Errorf("%s: key %q, tags say %q", k.Type, o.ModelKey(), want)
		}
		if o.ModelType() != k.Type || KindOf(o).Type != k.Type {
			t.Errorf("%s: object says it is a %s", k.Type, o.ModelType())
		}
		for i, f := range k.Columns() {
			if f.Column != i+1 {
				t.Errorf("%s: column %d is missing", k.Type, i+1)
			}
		}
		for _, f := range k.Fields {
			checkField(t, k, f)
		}
	}
}

func checkField(t *testing.T, k Kind, f Field) {
	t.Helper()
	if !slices.Contains([]reflect.Kind{reflect.String, reflect.Int, reflect.Slice}, f.Kind()) {
		t.Errorf("%s.%s: a field holds a string, an int or a list", k.Type, f.Name)
	}
	if f.Doc == "" && !strings.HasPrefix(k.Type, "volume") {
		t.Errorf("%s.%s: no documentation", k.Type, f.Name)
	}
	if _, err := strconv.Atoi(f.Default); f.Kind() == reflect.Int && f.Default != "" && err != nil {
		t.Errorf("%s.%s: default %q is no number", k.Type, f.Name, f.Default)
	}
	sf := k.goType.Field(f.index)
	if !strings.HasSuffix(sf.Tag.Get("json"), ",omitempty") {
		t.Errorf("%s.%s: empty values must be left out", k.Type, f.Name)
	}
}

// The order of declaration is the order of output; it must be that of checks.
func TestFieldsAreDeclaredAlphabetically(t *testing.T) {
	for _, k := range Kinds() {
		if !slices.IsSortedFunc(k.Fields, func(a, b Field) int { return a.index - b.index }) {
			t.Errorf("%s: fields are not in alphabetical order", k.Type)
		}
	}
}

func TestSettingAFieldRefusesAnotherType(t *testing.T) {
	k, _ := KindByType("network")
	f, _ := k.Field("pktTag")
	for _, wrong := range []any{"5", int64(5), nil, []string{"5"}} {
		if err := f.Set(new(Network), wrong); err == nil {
			t.Errorf("%T accepted", wrong)
		}
	}
}
