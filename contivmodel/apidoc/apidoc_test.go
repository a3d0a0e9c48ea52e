package apidoc

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

var update = flag.Bool("update", false, "write docs/api.md anew")

func TestThePageIsUpToDate(t *testing.T) {
	path, want := filepath.Join("..", "..", "docs", "api.md"), []byte(Markdown())
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v); write it anew with -update", path, err)
	}
}

func TestEveryRouteAndReferenceIsThere(t *testing.T) {
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, k := range contivmodel.Kinds() {
		for path, methods := range map[string]string{
			"/api/v1/" + k.Segment + "/":               "get",
			"/api/v1/" + k.Segment + "/{key}/":         "get post put delete",
			"/api/v1/inspect/" + k.Segment + "/{key}/": "get",
		} {
			for method := range strings.FieldsSeq(methods) {
				if document.Paths[path][method] == nil {
					t.Errorf("no %s %s", method, path)
				}
			}
		}
	}
	for _, found := range regexp.MustCompile(`"#/components/schemas/([^"]*)"`).FindAllSubmatch(text, -1) {
		if document.Components.Schemas[string(found[1])] == nil {
			t.Errorf("no schema %s", found[1])
		}
	}
	for _, phrase := range []string{`"priority":`, `"default": 1`, `"maximum": 16777216`, `"vxlan"`, `"readOnly": true`} {
		if !bytes.Contains(text, []byte(phrase)) {
			t.Errorf("document lacks %s", phrase)
		}
	}
}
