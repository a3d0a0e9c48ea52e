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

// filled returns an object of a kind with a value in every field.
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
		"kind: tenant\nkind: network":                              `standard input: document 1: line 2: key "kind" is there twice, in line 1 before`,
		"kind: network\nmetadata: {name: a}\nspec: {pktTag: 010}":  "standard input: network: pktTag: 010: a number that begins with 0 is another one for some; write it without",
		"a: &a {b: *a}":                                            "standard input: document 1: line 1: a contains itself",
		"kind: tenant\n<<: 3":                                      "standard input: document 1: line 2: only maps can be merged",
		"{[a]: b}":                                                 "standard input: document 1: line 1: a key has to be a text",
		"kind: tenant\nmetadata:\n\tname: a":                       "standard input: document 1: yaml: line 3: found character that cannot start any token",
	} {
		if _, err := reader(text).Read("-"); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// Fields for texts keep the written text, even if YAML would take it for a number or a truth value.
func TestTextsAreAsWritten(t *testing.T) {
	for _, text := range []string{"1.10", "010", "1e3", "0x1F", "1_000", "no", "on", "y", "True", ".inf", "2001-01-01", "12345678901234567890123", "+5"} {
		tenant := &contivmodel.Tenant{Key: text, TenantName: text}
		if diff := cmp.Diff([]contivmodel.Object{tenant}, readAll(t, "kind: tenant\nmetadata: {name: "+text+"}")); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for text, want := range map[string]string{"yes": "yes", "true": "yes", "True": "yes", "false": "no", "no": "no", `"no"`: "no"} {
		read := readAll(t, "kind: aciGw\nmetadata: {name: aciGw}\nspec: {physicalDomain: dom, enforcePolicies: "+text+", includeCommonTenant: no}")
		if got := read[0].(*contivmodel.AciGw).EnforcePolicies; got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestAliasesAndMergesAreFollowed(t *testing.T) {
	objects := readAll(t, `
- &web {kind: rule, metadata: &of {tenant: blue, policy: p, name: 1}, spec: &in {direction: in, action: allow, port: 80}}
- <<: *web
  metadata: {<<: *of, name: 2}
  spec: {<<: [{port: 81}, *in], protocol: tcp}
`)
	second, ok := objects[1].(*contivmodel.Rule)
	if !ok || second.Key != "blue:p:2" || second.Port != 81 || second.Direction != "in" || second.Protocol != "tcp" {
		t.Errorf("got %+v", objects[1])
	}
}

func TestAliasesOfAliasesHaveABound(t *testing.T) {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		alias := fmt.Sprintf("*a%d, ", i)
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(alias, 10))
	}
	if _, err := reader(text).Read("-"); err == nil || !strings.Contains(err.Error(), "aliases stand for more than 1000000 values") {
		t.Errorf("got %v", err)
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
