// Package docs_test holds the documentation against the tree.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// paths are the words in backticks that name something of the tree.
var paths = regexp.MustCompile("`((?:cmd|contivmodel|deploy|docs|drivers|mgmtfn|netctl|netmaster|netplugin|objdb|ofnet|scripts|test|utils)(?:/[\\w.{},*-]+)+)`")

// links are those between pages.
var links = regexp.MustCompile(`\]\(([\w./-]+\.md)\)`)

func TestEveryPathInTheDocumentationExists(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range paths.FindAllStringSubmatch(string(text), -1) {
			for _, path := range alternatives(match[1]) {
				if found, err := filepath.Glob(filepath.Join("..", path)); err != nil || len(found) == 0 {
					t.Errorf("%s: %s is not there", page, path)
				}
			}
		}
		for _, match := range links.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// alternatives are the paths that "a/{b,c}" stands for.
func alternatives(path string) []string {
	before, rest, found := strings.Cut(path, "{")
	if !found {
		return []string{path}
	}
	names, after, _ := strings.Cut(rest, "}")
	var all []string
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, alternatives(before+name+after)...)
	}
	return all
}

// commands begin lines that tests of test/e2e and test/k8s run, if they are in blocks for a shell.
var commands = regexp.MustCompile(`^ +(netctl|systemctl|cnitool|ip|nft|ovs-\w+|bin/\w+|kubectl|etcdctl|ctr|make) `)

func TestTheCommandsOfPagesAreRun(t *testing.T) {
	for page, heading := range map[string]string{"networking.md": "", "kubernetes.md": "", "security.md": "Closing a cluster that runs"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		run := string(text)
		if heading != "" {
			if run = section(run, heading); run == "" {
				t.Errorf("%s has no section %s", page, heading)
			}
		}
		for i, part := range strings.Split(run, "```") {
			if i%2 != 0 {
				continue // inside a block
			}
			for line := range strings.Lines(part) {
				if commands.MatchString(line) {
					t.Errorf("%s: %q is not in a block that begins with ```sh", page, line)
				}
			}
		}
	}
}

// TestArchitectureNamesEveryPackage looks at packages of this module. A row of the table names them in full, or by
// their names in the first folder of the row.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for row := range strings.Lines(section(string(text), "Packages")) {
		words := strings.Split(row, "`")
		for i := 1; i < len(words); i += 2 {
			named = append(named, alternatives(words[i])...)
			named = append(named, words[1]+"/"+words[i])
		}
	}
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == ".." || path == filepath.Join("..", "docs") {
			return err
		}
		if files, _ := filepath.Glob(filepath.Join(path, "go.mod")); len(files) > 0 || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		folder := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if err == nil && len(files) > 0 && !slices.ContainsFunc(named, func(pattern string) bool { found, _ := filepath.Match(pattern, folder); return found }) {
			t.Errorf("architecture.md: no row is about %s", folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// section is the part of a page below a heading of the second level.
func section(page, heading string) string {
	_, after, _ := strings.Cut(page, "\n## "+heading+"\n")
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	function = regexp.MustCompile(`^\w+$`)
)

// The largest packages have a list of their files in the package comment.
func TestPackageCommentsNameTheirFiles(t *testing.T) {
	for dir, in := range map[string]string{
		"netmaster/k8s": "doc.go", "netmaster/master": "doc.go", "netplugin/agent": "doc.go", "ofnet/pipeline": "pipeline.go",
	} {
		code, err := os.ReadFile(filepath.Join("..", dir, in))
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(string(code), "\npackage ")
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".go")
			if strings.HasSuffix(name, "_test") || filepath.Base(file) == in {
				continue
			}
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(comment) {
				t.Errorf("%s/%s does not name %s.go", dir, in, name)
			}
		}
	}
}

// TestWalksNameFunctions looks at the walks through the code: what a row calls a function is one of
// the first file of that row, or of those beside it in the first column.
func TestWalksNameFunctions(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for row := range strings.Lines(section(string(text), "Through the code, file by file")) {
		columns := strings.Split(row, "|")
		if len(columns) < 4 || !strings.Contains(columns[1], ".go`") {
			continue
		}
		rows++
		var code strings.Builder
		for _, file := range quoted.FindAllStringSubmatch(columns[1], -1) {
			content, err := os.ReadFile(filepath.Join("..", file[1]))
			if err != nil {
				t.Fatal(err)
			}
			code.Write(content)
		}
		for _, name := range quoted.FindAllStringSubmatch(columns[2], -1) {
			if !function.MatchString(name[1]) {
				continue // a file, or a part of a path
			}
			if declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name[1] + `\(`); !declared.MatchString(code.String()) {
				t.Errorf("architecture.md: there is no function %s in %s", name[1], strings.TrimSpace(columns[1]))
			}
		}
	}
	if rows < 20 {
		t.Errorf("architecture.md: %d rows in the walks", rows)
	}
}
