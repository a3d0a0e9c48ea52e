package contivmodel

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/utils/secret"
)

// Field is one field of a kind, as read from its tags.
type Field struct {
	Name       string   // JSON name
	Doc        string   // meaning, one line
	Rule       string   // name of the pattern; empty: none
	OneOf      []string // values allowed; empty: any
	Min, Max   int      // range of a number; for a string Max is the maximum length; Max 0: none
	Default    string   // meaning of an absent value
	Required   bool
	Unless     string // JSON name of a string field that makes this one optional; empty: none
	Changeable bool
	Unchecked  bool   // Validate leaves required and oneof to the operation
	KeyPart    int    // position in the key, from 1; 0: not part of it
	Column     int    // position in a listing, from 1; 0: not shown
	Heading    string // heading of that column

	index  int
	goType reflect.Type
}

// Kind returns the Go kind of the field: String, Int or Slice (of strings).
func (f Field) Kind() reflect.Kind { return f.goType.Kind() }

// Secret reports whether the field is write-only.
func (f Field) Secret() bool { return f.goType == reflect.TypeFor[secret.Text]() }

// Value returns the field's value: a string, an int, a []string or a secret.Text.
func (f Field) Value(o Object) any { return f.of(o).Interface() }

// Set stores a string, an int or a []string, whichever the field holds.
func (f Field) Set(o Object, value any) error {
	if text, ok := value.(string); ok && f.Secret() {
		value = secret.Text(text)
	}
	v := reflect.ValueOf(value)
	if !v.IsValid() || v.Type() != f.goType {
		return fmt.Errorf("%s %s: a %T given, a %s wanted", o.ModelType(), f.Name, value, f.goType)
	}
	f.of(o).Set(v)
	return nil
}

// Pattern returns the expression that a string must match, and its meaning in words; both are empty if the field
// has no pattern.
func (f Field) Pattern() (expression, meaning string) {
	if f.Rule == "" {
		return "", ""
	}
	p := patterns[f.Rule]
	return p.expr.String(), p.doc
}

// wanted describes the valid values, with an example where words alone do not show the form: "address/length or
// first-last/length, such as 10.1.2.0/24".
func (f Field) wanted() string {
	switch p := patterns[f.Rule]; {
	case f.Kind() == reflect.Int && f.Max > 0:
		return fmt.Sprintf("%d to %d", f.Min, f.Max)
	case f.Rule != "":
		return p.doc + ", such as " + p.example
	case len(f.OneOf) > 0:
		return strings.Join(f.OneOf, " or ")
	case f.Required:
		return "a text that is not empty"
	}
	return "anything"
}

// Empty reports whether the field has its zero value.
func (f Field) Empty(o Object) bool { return f.of(o).IsZero() }

func (f Field) of(o Object) reflect.Value { return reflect.ValueOf(o).Elem().Field(f.index) }

// readField reads the tags of a struct field. The tests of the declarations check that every tag is one that is
// read here.
func readField(name string, index int, sf reflect.StructField) Field {
	f := Field{Name: name, Doc: sf.Tag.Get("doc"), index: index, goType: sf.Type}
	for item := range strings.FieldsSeq(sf.Tag.Get("model")) {
		what, value, _ := strings.Cut(item, "=")
		number, _ := strconv.Atoi(value)
		switch what {
		case "key":
			f.KeyPart = number
		case "required":
			f.Required = true
		case "changeable":
			f.Changeable = true
		case "unchecked":
			f.Unchecked = true
		case "max":
			f.Max = number
		case "min":
			f.Min = number
		case "default":
			f.Default = value
		case "oneof":
			f.OneOf = strings.Split(value, "|")
		case "rule":
			f.Rule = value
		case "unless":
			f.Unless = value
		}
	}
	if position, heading, ok := strings.Cut(sf.Tag.Get("column"), " "); ok {
		f.Heading = heading
		f.Column, _ = strconv.Atoi(position)
	}
	return f
}
