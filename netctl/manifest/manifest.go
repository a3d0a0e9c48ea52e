// Package manifest reads and writes objects as documents for users:
//
//	kind: rule
//	metadata:
//	  tenant: blue
//	  policy: shop
//	  name: web-in
//	spec:
//	  direction: in
//	  protocol: tcp
//	  port: 80
//	  action: allow
//
// Metadata holds the fields of the key: the last one is the name, the others are named after what they refer to.
// Spec holds the other fields, with their names in the REST interface. The package has no code for particular
// objects: the declarations of contivmodel define the fields.
//
// Read also accepts the output of the REST interface and of "netctl ... -o json": objects without kind, which is
// derived from their fields, lists of objects, and responses of inspect.
package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/secret"
)

// document is the written form of an object.
type document struct {
	Kind     string            `json:"kind"`
	Metadata map[string]string `json:"metadata"`
	Spec     map[string]any    `json:"spec,omitempty"`
}

// FromObject returns the document of an object, ready to be encoded. Links and empty fields are omitted; a secret
// is replaced by ***, which is refused when an object is created.
func FromObject(o contivmodel.Object) any {
	kind := contivmodel.KindOf(o)
	doc := document{Kind: kind.Type, Metadata: map[string]string{}, Spec: map[string]any{}}
	for _, f := range kind.Fields {
		switch {
		case f.KeyPart > 0:
			doc.Metadata[metadataName(kind, f)] = fmt.Sprint(f.Value(o))
		case f.Empty(o):
		case f.Secret():
			doc.Spec[f.Name] = secret.Shown
		default:
			doc.Spec[f.Name] = f.Value(o)
		}
	}
	return doc
}

// YAML returns the document of an object as text.
func YAML(o contivmodel.Object) ([]byte, error) { return yaml.Marshal(FromObject(o)) }

// metadataName returns the name in metadata of a field of the key.
func metadataName(kind contivmodel.Kind, f contivmodel.Field) string {
	if f.KeyPart == len(kind.KeyFields()) {
		return "name"
	}
	return strings.TrimSuffix(f.Name, "Name")
}

// ignored are members for other readers.
var ignored = map[string]bool{
	"apiVersion": true, "labels": true, "annotations": true, // of other tools' documents
	"key": true, "links": true, "link-sets": true, // set by the server
}

// fields collects the members of a document as fields of its kind.
type fields struct {
	kind   contivmodel.Kind
	values map[string]any // by name of the field
}

// metadata reads the members of the key.
func (f *fields) metadata(members map[string]any) error {
	var known []string
	for _, field := range f.kind.KeyFields() {
		name := metadataName(f.kind, field)
		known = append(known, name)
		if value, ok := members[name]; ok {
			f.values[field.Name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) && !ignored[name] {
			return unknown(f.kind, "metadata", name, known)
		}
	}
	return nil
}

// spec reads the members that are fields under their own name.
func (f *fields) spec(members map[string]any) error {
	var known []string
	for _, field := range f.kind.Fields {
		known = append(known, field.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch {
		case slices.Contains(known, name):
			f.values[name] = members[name]
		case !ignored[name]:
			return unknown(f.kind, "spec", name, known)
		}
	}
	return nil
}

// object returns the object with these fields.
func (f *fields) object(tenant string) (contivmodel.Object, error) {
	if owner := f.kind.KeyFields()[0]; owner.Name == "tenantName" && metadataName(f.kind, owner) != "name" && f.values[owner.Name] == nil {
		f.values[owner.Name] = tenant
	}
	for _, field := range f.kind.Fields {
		if value, ok := f.values[field.Name]; ok && value != nil {
			taken, err := asField(field, value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.kind.Type, err)
			}
			f.values[field.Name] = taken
		}
	}
	body, err := json.Marshal(f.values)
	if err != nil {
		return nil, err
	}
	o, err := f.kind.Decode(body)
	if err != nil {
		return nil, err
	}
	for _, field := range f.kind.KeyFields() {
		if field.Empty(o) {
			return nil, fmt.Errorf("%s without metadata.%s", f.kind.Type, metadataName(f.kind, field))
		}
	}
	o.SetKey(o.ModelKey())
	return o, nil
}

// decodeAll decodes consecutive JSON values; numbers retain their text.
func decodeAll(text []byte) ([]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var values []any
	for decoder.More() {
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}
