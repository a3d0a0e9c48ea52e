// Sbom prints the contents of programs as a CycloneDX document: the modules from which each was built according to
// itself, with their hashes, and Go. Its source is the programs, not the source code, so it does not list what is
// not linked. The same programs give the same document.
//
//	go run ./scripts/sbom bin/netmaster bin/netplugin
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// document is a bill of materials in CycloneDX 1.5.
type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(programs []string, out io.Writer) error {
	if len(programs) == 0 {
		return fmt.Errorf("no program is named")
	}
	doc := document{Format: "CycloneDX", Spec: "1.5", Version: 1}
	parts := map[string]component{}
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("program %s: %w", path, err)
		}
		name := filepath.Base(path)
		program := component{Type: "application", Ref: name, Name: name, Version: info.Main.Version}
		doc.Components = append(doc.Components, program)
		of := dependency{Ref: name}
		for _, part := range madeOf(info) {
			parts[part.Ref] = part
			of.DependsOn = append(of.DependsOn, part.Ref)
		}
		doc.Dependencies = append(doc.Dependencies, of)
	}
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		doc.Components = append(doc.Components, parts[ref])
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

// madeOf returns the standard library and the modules of a program.
func madeOf(info *debug.BuildInfo) []component {
	version := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{library("stdlib", version, "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, library(m.Path, m.Version, m.Sum))
	}
	return parts
}

func library(name, version, sum string) component {
	purl := "pkg:golang/" + name + "@" + version
	c := component{Type: "library", Ref: purl, Name: name, Version: version, PURL: purl}
	// A module's sum is a SHA-256 over the hashes of its files, in base64.
	if digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(digest) > 0 {
		c.Hashes = []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(digest)}}
	}
	return c
}
