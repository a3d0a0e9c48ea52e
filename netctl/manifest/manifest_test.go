package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
)

func reader(stdin string) Reader {
	return Reader{Tenant: "default", Stdin: strings.NewReader(stdin), Kind: func(word string) (contivmodel.Kind, error) {
		kind, ok := contivmodel.KindByType(word)
		if !ok {
			return kind, fmt.Errorf("no kind %q", word)
		}
		return kind, nil
	}}
}

func readAll(t *testing.T, text string) []contivmodel.Object {
	t.Helper()
	documents, err := reader(text).Read("-")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var objects []contivmodel.Object
	for _, d := range documents {
		objects = append(objects, d.Object)
	}
	return objects
}

// filled is an object of a kind with a value in every field.
func filled(t *testing.T, kind contivmodel.Kind) contivmodel.Object {
	t.Helper()
	o := kind.New()
	for i, f := range kind.Fields {
		var value any = fmt.Sprintf("%d", i) // a text that YAML takes for a number
		switch {
		case f.Kind() == reflect.Int:
			value = 7
		case f.Kind() == reflect.Slice:
			value = []string{"yes", "a: b"}
		case len(f.OneOf) > 0:
			value = f.OneOf[0]
		}
		if err := f.Set(o, value); err != nil {
			t.Fatal(err)
		}
	}
	o.SetKey(o.ModelKey())
	return o
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	for _, kind := range contivmodel.Kinds() {
		o := filled(t, kind)
		text, err := YAML(o)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for form, written := range map[string]string{
			"document":         string(text),
			"REST object":      string(plain),
			"list":             "[" + string(plain) + "]",
			"answer":           `{"Config":` + string(plain) + `,"Oper":{"numEndpoints":3}}`,
			"list of a server": `{"kind":"List","items":[` + string(plain) + `]}`,
		} {
			want := o
			if form == "document" {
				want = filled(t, kind)
				contivmodel.Redact(want) // a secret is read, and not written
			}
			if diff := cmp.Diff([]contivmodel.Object{want}, readAll(t, written)); diff != "" {
				t.Errorf("%s as %s: %s\n%s", kind.Type, form, diff, written)
			}
		}
	}
}

func TestSeveralDocumentsAreSeveralObjects(t *testing.T) {
	blue := &contivmodel.Tenant{Key: "blue", TenantName: "blue"}
	rule := &contivmodel.Rule{Key: "default:p:1", TenantName: "default", PolicyName: "p", RuleID: "1", Priority: 1,
		Direction: "in", Action: "allow", Port: 80}
	gateway := &contivmodel.AciGw{Key: "aciGw", Name: "aciGw", PhysicalDomain: "dom", EnforcePolicies: "yes", IncludeCommonTenant: "no"}
	for _, text := range []string{`# a comment
---
kind: tenant
metadata: {name: blue, labels: {team: a}}
---
# nothing here
---
apiVersion: v1
kind: rule
metadata:
  policy: p
  name: 1
spec: {direction: in, action: allow, port: 80}
--- {kind: aciGw, metadata: {name: aciGw}, spec: {physicalDomain: dom, enforcePolicies: yes, includeCommonTenant: no}}
`, `{"tenantName":"blue"} {"ruleId":"1","policyName":"p","tenantName":"default","direction":"in","action":"allow","port":80}
[{"name":"aciGw","physicalDomain":"dom","enforcePolicies":"yes","includeCommonTenant":"no"}]`,
	} {
		if diff := cmp.Diff([]contivmodel.Object{blue, rule, gateway}, readAll(t, text)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"kind: tenant\nmetadata: {name: a}\n---\nkind: tennant": `standard input, document 2: no kind "tennant"`,
		"kind: tenant":                                             "standard input: tenant without metadata.name",
		"kind: rule\nmetadata: {name: a}":                          "standard input: rule without metadata.policy",
		"kind: tenant\nmetadata: {name: a, network: b}":            `standard input: tenant: metadata has no "network", only name`,
		"kind: policy\nmetadata: {name: a}\nspec: {rules: []}":     `standard input: policy: spec has no "rules", only policyName, tenantName`,
		"kind: tenant\nname: a":                                    `standard input: tenant: a document has no "name", only kind, metadata, spec`,
		"kind: tenant\nmetadata: a":                                "standard input: tenant: metadata: names and values wanted",
		"kind: network\nmetadata: {name: a}\nspec: {pktTag: many}": "standard input: network: field pktTag takes no string",
		"- tenantName: a\n- color: blue":                           "standard input, item 2: neither kind, metadata and spec nor the fields of an object",
		"just text":                                                "standard input: an object or a list of objects wanted",
		"kind: tenant\nkind: network":                              `standard input: document 1: yaml: unmarshal errors:` + "\n" + `  line 2: key "kind" already set in map`,
	} {
		if _, err := reader(text).Read("-"); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestFoldersAreReadByName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"2.yml": "kind: tenant\nmetadata: {name: second}", "1.json": `{"tenantName":"first"}`, "notes.txt": "no document",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	documents, err := reader("").Read(dir)
	if err != nil || len(documents) != 2 || documents[0].Object.ModelKey() != "first" || documents[1].Source != filepath.Join(dir, "2.yml") {
		t.Errorf("got %v, %v", documents, err)
	}
	var missing *fs.PathError
	if _, err := reader("").Read(filepath.Join(dir, "nothing")); !errors.As(err, &missing) {
		t.Errorf("a missing file: %v", err)
	}
}
