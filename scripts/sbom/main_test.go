package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestEveryModuleOfAProgramIsNamed(t *testing.T) {
	own, err := os.Executable() // is a program as others are
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := run([]string{own}, &first); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{own}, &second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("not the same twice (%v)", err)
	}
	var doc document
	if err := json.Unmarshal(first.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range doc.Components {
		names[c.Name] = true
	}
	if !names["stdlib"] {
		t.Error("the standard library is not named")
	}
	for _, m := range info.Deps {
		if !names[m.Path] {
			t.Errorf("module %s is not named", m.Path)
		}
	}
}

func TestAModuleHasItsHashAndURL(t *testing.T) {
	c := library("example.org/m", "v1.2.3", "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
	if c.PURL != "pkg:golang/example.org/m@v1.2.3" || len(c.Hashes) != 1 ||
		c.Hashes[0].Content != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("%+v", c)
	}
}

func TestWhatIsNoProgramIsNamed(t *testing.T) {
	err := run([]string{"main.go"}, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("error %v", err)
	}
	if run(nil, new(bytes.Buffer)) == nil {
		t.Error("no program is no error")
	}
}
