package testkit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatTakesLongIsCalledSo reads all tests: the Makefile finds those that take long by their names. One that
// is called otherwise would run nowhere, and one that is called so without taking long would run in both places.
func TestWhatTakesLongIsCalledSo(t *testing.T) {
	long := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			f, is := declared.(*ast.FuncDecl)
			if !is || f.Body == nil {
				continue
			}
			named, takes := strings.HasPrefix(f.Name.Name, "TestLong"), begins(f.Body, "TakesLong")
			if named != takes {
				t.Errorf("%s: %s: called so %t, takes long %t", path, f.Name, named, takes)
			}
			if takes {
				long++
			}
		}
		return nil
	})
	if err != nil || long < 30 {
		t.Errorf("%d tests take long, %v", long, err)
	}
}

// begins reports whether the first statement of a function calls another one of a name.
func begins(body *ast.BlockStmt, name string) bool {
	found := false
	if len(body.List) > 0 {
		ast.Inspect(body.List[0], func(n ast.Node) bool {
			if called, is := n.(*ast.SelectorExpr); is && called.Sel.Name == name {
				found = true
			}
			return !found
		})
	}
	return found
}
