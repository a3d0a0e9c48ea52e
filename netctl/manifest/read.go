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
	Kind   func(word string) (contivmodel.Kind, error) // what a document calls its kind
	Tenant string                                      // of objects that name none
	Stdin  io.Reader
}

// Document is an object and where it was read.
type Document struct {
	Source string // "shop.yaml, document 2"
	Object contivmodel.Object
}

// extensions are the names of files that are read in a folder.
var extensions = []string{".yaml", ".yml", ".json"}

// Read reads the documents of a file, of all such files of a folder by name,
// or, for "-", of standard input. A file that cannot be read is an
// *fs.PathError, all else is wrong in the documents.
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

// split takes a text apart into its documents: JSON values that follow each
// other, or YAML between lines of dashes.
func split(text []byte) ([]any, error) {
	if begin := bytes.TrimSpace(text); bytes.HasPrefix(begin, []byte("{")) || bytes.HasPrefix(begin, []byte("[")) {
		if values, err := decodeAll(text); err == nil {
			return values, nil // else YAML in braces
		}
	}
	return decodeYAML(text)
}

// value reads what one document holds: an object or a list of them.
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

// object reads an object in whichever form it is written.
func (r Reader) object(members map[string]any) (contivmodel.Object, error) {
	if config, ok := members["Config"].(map[string]any); ok { // an answer of inspect
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

// plain reads an object of the REST interface, which does not say its kind:
// there is one that has all its fields and whose key they make.
func (r Reader) plain(members map[string]any) (contivmodel.Object, error) {
	for _, kind := range contivmodel.Kinds() {
		f := fields{kind, map[string]any{}}
		if f.spec(members) == nil && f.makeKey() {
			return f.object(r.Tenant)
		}
	}
	return nil, errors.New("neither kind, metadata and spec nor the fields of an object")
}

// makeKey tells whether the fields that make the key are there, with values they can have.
func (f *fields) makeKey() bool {
	for _, field := range f.kind.KeyFields() {
		value, ok := f.values[field.Name]
		if !ok || len(field.OneOf) > 0 && !slices.Contains(field.OneOf, fmt.Sprint(value)) {
			return false
		}
	}
	return true
}

// asField is the value as a field takes it: what looks like a number or a truth value is a text where the field holds texts.
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

// asText is a number or a truth value as it was written, and anything else as it is. Truth values are
// yes and no where the field holds these.
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

// unknown names what is not understood and what would be.
func unknown(kind contivmodel.Kind, where, name string, known []string) error {
	slices.Sort(known)
	return fmt.Errorf("%s: %s has no %q, only %s", kind.Type, where, name, strings.Join(known, ", "))
}
