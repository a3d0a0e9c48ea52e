package docs_test

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/contiv/netplugin/"

// mayImport has, for each part of the tree, the others that it may import. Parts that are not here may import
// everything: programs, tests, and what makes images of them.
var mayImport = map[string][]string{
	"utils":       {},
	"contivmodel": {"utils"},
	"objdb":       {"utils"},
	"ofnet":       {"utils"},
	"drivers":     {"ofnet", "utils"},
	"netmaster":   {"contivmodel", "objdb", "ofnet/pipeline", "utils"},
	"netplugin":   append([]string{"contivmodel/hops", "drivers", "objdb", "ofnet", "utils"}, fromNetmaster...),
	"mgmtfn":      {"contivmodel/limits", "drivers", "netmaster/mastercfg", "netplugin/agent", "utils"},
	"netctl":      {"contivmodel", "netmaster/mastercfg", "utils"},

	// The parts of the REST interface, each above those before it.
	"netmaster/api/rest": append([]string{"netmaster/access", "netmaster/api/jsonstream", "netmaster/api/spool"}, belowREST...),
	"netmaster/api/auth": append([]string{"netmaster/access", "netmaster/accounts", "netmaster/api/rest", "netmaster/api/spool", "netmaster/audit", "netmaster/master", "netmaster/ratelimit"}, belowREST...),
	"netmaster/api/logins": append([]string{"netmaster/access", "netmaster/accounts", "netmaster/api/auth", "netmaster/api/rest", "netmaster/directory", "netmaster/keyring",
		"netmaster/master", "netmaster/openid", "netmaster/pki", "netmaster/ratelimit"}, belowREST...),
	"netmaster/api/membership": append([]string{"netmaster/access", "netmaster/api/auth", "netmaster/api/rest", "netmaster/jointoken", "netmaster/keyring", "netmaster/master", "netmaster/pki",
		"netmaster/ratelimit"}, belowREST...),
}

// belowREST is what all parts of the REST interface speak of.
var belowREST = []string{"contivmodel", "netmaster/identity", "netmaster/mastercfg", "netmaster/rights", "objdb", "utils"}

// fromNetmaster are the packages that agents share with it: the records, identities, joining, and the rate of
// handshakes.
var fromNetmaster = []string{"netmaster/identity", "netmaster/joining", "netmaster/jointoken", "netmaster/mastercfg", "netmaster/pki", "netmaster/ratelimit"}

// TestArrowsPointDownwards looks at what the packages of this module import of each other, tests aside.
func TestArrowsPointDownwards(t *testing.T) {
	for part, others := range mayImport {
		files := 0
		err := filepath.WalkDir(filepath.Join("..", part), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() && entry.Name() == "internal" { // stores and the like, for tests
				return cmp.Or(err, fs.SkipDir)
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				of, ours := strings.CutPrefix(imported, module)
				if ours && !slices.ContainsFunc(append(others, part), func(allowed string) bool { return of == allowed || strings.HasPrefix(of, allowed+"/") }) {
					t.Errorf("%s imports %s", path, of)
				}
			}
			return nil
		})
		if err != nil || files == 0 {
			t.Errorf("%s: %d files, %v", part, files, err)
		}
	}
}
