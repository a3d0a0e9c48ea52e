package limits

import (
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

func TestTextsAreBoundedAndPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"web/näme-1":             "",
		strings.Repeat("x", 100): "",
		strings.Repeat("x", 101): "has 101 bytes, want at most 100",
		"a\nb":                   "control character U+000A",
		"a\x7f":                  "control character U+007F",
		"a\xff":                  "is not UTF-8",
		"a\ufffd":                "is not UTF-8",
	} {
		err := Text("EPCommonName", text, 100)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || len(err.Error()) > 300):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	many := map[string]string{}
	for i := range LabelCount + 1 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	large := map[string]string{}
	for i := range 5 {
		large[strings.Repeat("k", i+1)] = strings.Repeat("v", LabelValue)
	}
	for what, c := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"none":          {nil, ""},
		"usual":         {map[string]string{"app.kubernetes.io/name": "web", "tier": ""}, ""},
		"too many":      {many, "129 labels"},
		"a long key":    {map[string]string{strings.Repeat("k", LabelKey+1): "v"}, "318 bytes"},
		"a long value":  {map[string]string{"k": strings.Repeat("v", LabelValue+1)}, "4097 bytes"},
		"a newline":     {map[string]string{"k": "a\nb"}, "U+000A"},
		"much together": {large, "keys and values have"},
	} {
		err := Labels("Labels", c.labels)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	items := func(n, length int) []string { return slices.Repeat([]string{strings.Repeat("x", length)}, n) }
	for what, c := range map[string]struct {
		items []string
		want  string
	}{
		"none":          {nil, ""},
		"as many":       {items(ListItems, ListTotal/ListItems), ""},
		"too many":      {items(ListItems+1, 0), "names: 1001 items, want at most 1000"},
		"a long one":    {items(1, ListItem+1), "has 4415 bytes, want at most 4414"},
		"much together": {items(ListTotal/ListItem+1, ListItem), "names: the items have"},
	} {
		err := List("names", c.items)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}
