package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// Reader reads documents.
type Reader struct {
	Kind   func(word string) (contivmodel.Kind, error) // finds a document's kind by name
	Tenant string                                      // of objects without one
	Stdin  io.Reader
}

// Document is an object and its source.
type Document struct {
	Source string // "shop.yaml, document 2"
	Object contivmodel.Object
}

// extensions are the names of files that are read in a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// Read reads the documents of a file, of all files with these extensions in a directory by name, or, for "-", of
// standard input. If a file cannot be read the error is an *fs.PathError; all other errors are in the documents.
func (r Reader) Read(path string) ([]Document, error) {
	if path == "-" {
		text, err := io.ReadAll(r.Stdin)
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: "standard input", Err: err}
		}
		return r.parse("standard input", text)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return r.parse(path, text)
	}
	var all []Document
	for _, entry := range entries {
		if entry.IsDir() || !slices.Contains(extensions, filepath.Ext(entry.Name())) {
			continue
		}
		documents, err := r.Read(filepath.Join(path, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

// parse reads the documents of one text.
func (r Reader) parse(source string, text []byte) ([]Document, error) {
	values, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	var all []Document
	for i, value := range values {
		at := source
		if len(values) > 1 {
			at = fmt.Sprintf("%s, document %d", source, i+1)
		}
		documents, err := r.value(at, value)
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

// split splits a text into its documents: consecutive JSON values, or YAML between lines of dashes.
func split(text []byte) ([]any, error) {
	if begin := bytes.TrimSpace(text); bytes.HasPrefix(begin, []byte("{")) || bytes.HasPrefix(begin, []byte("[")) {
		if values, err := decodeAll(text); err == nil {
			return values, nil // else YAML in braces
		}
	}
	return decodeYAML(text)
}

// value reads one document: an object or a list of objects.
func (r Reader) value(source string, value any) ([]Document, error) {
	switch v := value.(type) {
	case []any:
		return r.list(source, v)
	case map[string]any:
		if items, ok := v["items"].([]any); ok {
			return r.list(source, items)
		}
		o, err := r.object(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		return []Document{{source, o}}, nil
	}
	return nil, fmt.Errorf("%s: an object or a list of objects wanted", source)
}

func (r Reader) list(source string, items []any) ([]Document, error) {
	var all []Document
	for i, item := range items {
		documents, err := r.value(fmt.Sprintf("%s, item %d", source, i+1), item)
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

// object reads an object in any of the accepted forms.
func (r Reader) object(members map[string]any) (contivmodel.Object, error) {
	if config, ok := members["Config"].(map[string]any); ok { // a response of inspect
		members = config
	}
	word, hasKind := members["kind"]
	if !hasKind {
		return r.plain(members)
	}
	kind, err := r.Kind(fmt.Sprint(word))
	if err != nil {
		return nil, err
	}
	f := fields{kind, map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		part, isMap := value.(map[string]any)
		switch {
		case name == "kind" || ignored[name]:
		case name != "metadata" && name != "spec":
			return nil, unknown(kind, "a document", name, []string{"kind", "metadata", "spec"})
		case value == nil:
		case !isMap:
			return nil, fmt.Errorf("%s: %s: names and values wanted", kind.Type, name)
		case name == "metadata":
			err = f.metadata(part)
		default:
			err = f.spec(part)
		}
		if err != nil {
			return nil, err
		}
	}
	return f.object(r.Tenant)
}

// plain reads an object of the REST interface, which has no kind: the kind is the one that has all its fields and
// whose key is complete.
func (r Reader) plain(members map[string]any) (contivmodel.Object, error) {
	for _, kind := range contivmodel.Kinds() {
		f := fields{kind, map[string]any{}}
		if f.spec(members) == nil && f.makeKey() {
			return f.object(r.Tenant)
		}
	}
	return nil, errors.New("neither kind, metadata and spec nor the fields of an object")
}

// makeKey reports whether the fields of the key are present, with valid values.
func (f *fields) makeKey() bool {
	for _, field := range f.kind.KeyFields() {
		value, ok := f.values[field.Name]
		if !ok || len(field.OneOf) > 0 && !slices.Contains(field.OneOf, fmt.Sprint(value)) {
			return false
		}
	}
	return true
}

// asField converts a value for a field: what looks like a number or a boolean is a string if the field holds
// strings.
func asField(field contivmodel.Field, value any) (any, error) {
	items, isList := value.([]any)
	plain, isPlain := value.(scalar)
	switch {
	case field.Kind() == reflect.Slice && isList:
		texts := make([]any, len(items))
		for i, item := range items {
			texts[i] = asText(field, item)
		}
		return texts, nil
	case field.Kind() == reflect.String:
		return asText(field, value), nil
	case isPlain && octal.MatchString(plain.text):
		return nil, fmt.Errorf("%s: %s: a number that begins with 0 is another one for some; write it without", field.Name, plain.text)
	}
	return value, nil
}

// asText returns a number or a boolean as it was written, and any other value unchanged. Booleans become yes and
// no if the field has these values.
func asText(field contivmodel.Field, value any) any {
	text, truth := "", value
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	case scalar:
		text, truth = v.text, v.value
	default:
		return value
	}
	if yes, isTruth := truth.(bool); isTruth && slices.Contains(field.OneOf, "yes") {
		if yes {
			return "yes"
		}
		return "no"
	}
	return text
}

// unknown returns an error that names an unknown member and the known ones.
func unknown(kind contivmodel.Kind, where, name string, known []string) error {
	slices.Sort(known)
	return fmt.Errorf("%s: %s has no %q, only %s", kind.Type, where, name, strings.Join(known, ", "))
}
