package identity

import (
	"strings"
	"testing"
)

func TestIdentitiesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Identity{
		"nobody":                {},
		"root":                  {Kind: Root},
		"master/m1":             {Kind: Master, Name: "m1"},
		"node/h1.example":       {Kind: Node, Name: "h1.example"},
		"user/alice@example.io": {Kind: User, Name: "alice@example.io"},
		"token/ci":              {Kind: Token, Name: "ci"},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "/", "root/", "root/x", "nobody/x", "node", "node/", "node//", "node/a/b", "Node/a", "group/a",
		"node/a b", "node/..", "node/ä", "node/" + strings.Repeat("a", 254)} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestOneURIPerIdentity(t *testing.T) {
	for _, who := range []Identity{{Kind: Master, Name: "m1"}, {Kind: Node, Name: "h_1.example-x"}, {Kind: User, Name: "alice@example.io"}} {
		text := who.URI("c-1").String()
		if cluster, got, err := ParseURI(text); err != nil || cluster != "c-1" || got != who {
			t.Errorf("%s: %s, %s, %v", text, cluster, got, err)
		}
	}
	for _, text := range []string{"", "contiv://", "contiv://c/node/", "contiv:///node/h", "contiv://c/node/h/", "contiv://c/node/h?x", "contiv://c/node/h#x",
		"contiv://c:1/node/h", "contiv://u@c/node/h", "contiv://c/node/%68", "contiv://c/root/h", "contiv://c/token/h", "contiv://c//h", "CONTIV://c/node/h",
		"https://c/node/h", "contiv://c/node/..", "contiv://c.d/node/h", "contiv://" + strings.Repeat("c", 65) + "/node/h"} {
		if cluster, who, err := ParseURI(text); err == nil {
			t.Errorf("%q: %s of %s", text, who, cluster)
		}
	}
}

func TestWhoIsInTheContext(t *testing.T) {
	if who := From(t.Context()); who != (Identity{}) || who.String() != "nobody" {
		t.Errorf("without: %s", who)
	}
	want := Identity{Kind: Node, Name: "h1", KeyHash: "k"}
	if who := From(With(t.Context(), want)); who != want {
		t.Errorf("%v, want %v", who, want)
	}
}

func FuzzParseURI(f *testing.F) {
	f.Add("contiv://c/node/h1")
	f.Fuzz(func(t *testing.T, text string) {
		cluster, who, err := ParseURI(text)
		if err == nil && who.URI(cluster).String() != text {
			t.Errorf("%q is written %q", text, who.URI(cluster))
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("node/h1")
	f.Fuzz(func(t *testing.T, text string) {
		if who, err := Parse(text); err == nil && who.String() != text {
			t.Errorf("%q is written %q", text, who)
		}
	})
}
