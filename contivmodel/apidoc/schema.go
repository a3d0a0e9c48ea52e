package apidoc

import (
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/contivmodel"
)

// kindSchema describes a configuration object with the rules of its fields.
func kindSchema(k contivmodel.Kind) object {
	properties := object{"key": object{"type": "string", "description": keyForm(k)}}
	required := []string{}
	for _, f := range k.Fields {
		properties[f.Name] = fieldSchema(f)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	t := reflect.TypeOf(k.New()).Elem()
	for i := range t.NumField() {
		switch name := jsonName(t.Field(i)); name {
		case "links", "link-sets":
			s := schemaOf(t.Field(i).Type, object{})
			s["readOnly"] = true
			properties[name] = s
		}
	}
	s := object{"type": "object", "description": k.Doc, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// fieldSchema describes one field with its rules. Optional fields may be null: clients send that for an empty
// field of a form. For the same reason 0 means an absent number, even where there is a default.
func fieldSchema(f contivmodel.Field) object {
	s := object{"description": f.Doc}
	if f.Doc == "" {
		delete(s, "description")
	}
	switch f.Kind() {
	case reflect.Int:
		s["type"], s["minimum"] = "integer", f.Min
		if f.Default != "" {
			s["minimum"] = 0
		}
		if f.Max > 0 {
			s["maximum"] = f.Max
		}
	case reflect.Slice:
		s["type"], s["items"] = "array", object{"type": "string"}
	default:
		s["type"] = "string"
		textRules(f, s)
	}
	if !f.Required {
		s["type"] = []any{s["type"], "null"}
		if values, ok := s["enum"].([]string); ok {
			s["enum"] = append(asAny(values), nil)
		}
	}
	if number, err := strconv.Atoi(f.Default); err == nil {
		s["default"] = number
	} else if f.Default != "" {
		s["default"] = f.Default
	}
	return s
}

func asAny(values []string) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}

func textRules(f contivmodel.Field, s object) {
	if f.Max > 0 {
		s["maxLength"] = f.Max
	}
	if expr, _ := f.Pattern(); expr != "" {
		s["pattern"] = expr
	}
	if len(f.OneOf) > 0 {
		s["enum"] = f.OneOf
		if !f.Required {
			s["enum"] = append([]string{""}, f.OneOf...)
		}
	}
}

// schemaOf describes a Go type. Run-time types, which refer to each other, are added to schemas by name.
func schemaOf(t reflect.Type, schemas object) object {
	switch {
	case t == reflect.TypeFor[contivmodel.LinkSet]():
		return ref("LinkSet")
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "format": "byte"}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Interface:
		return object{"type": "object"}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Uint64:
		return object{"type": "integer"}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case !strings.HasSuffix(t.Name(), "Oper"):
		return structSchema(t, schemas)
	}
	if _, done := schemas[t.Name()]; !done {
		schemas[t.Name()] = object{} // ends the recursion
		schemas[t.Name()] = structSchema(t, schemas)
	}
	return ref(t.Name())
}

func structSchema(t reflect.Type, schemas object) object {
	properties := object{}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous {
			embedded := structSchema(sf.Type, schemas)
			maps.Copy(properties, embedded["properties"].(object))
			continue
		}
		if sf.Type == reflect.TypeFor[contivmodel.Link]() {
			properties[jsonName(sf)] = ref("Link")
			continue
		}
		properties[jsonName(sf)] = schemaOf(sf.Type, schemas)
	}
	return object{"type": "object", "properties": properties}
}

// jsonName returns the JSON name of a struct field.
func jsonName(sf reflect.StructField) string {
	if name, _, _ := strings.Cut(sf.Tag.Get("json"), ","); name != "" {
		return name
	}
	return sf.Name
}
