package cleanup

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The manifests' directories for an absent netmaster are removed with our own; a netmaster's data stays.
func TestEmptyDirectoriesGoAndOthersStay(t *testing.T) {
	for name, kept := range map[string][]string{
		"a worker":                  nil,
		"a node with a netmaster":   {"etcd/member", "netmaster/pki"},
		"a netmaster without store": {"netmaster/pki"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			at := func(path string) string { return filepath.Join(top, "contiv", path) }
			for _, dir := range append([]string{"cni/attachments", "etcd", "netmaster"}, kept...) {
				if err := os.MkdirAll(at(dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			things, err := files(t.Context(), Config{StateDirs: []string{at("cni")}, Hollow: []string{at("etcd"), at("netmaster")}})
			if err != nil {
				t.Fatal(err)
			}
			for _, thing := range things {
				if err := thing.remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
			var left []string
			if err := fs.WalkDir(os.DirFS(top), "contiv", func(path string, _ fs.DirEntry, err error) error {
				if rel, relErr := filepath.Rel("contiv", path); relErr == nil && filepath.Dir(rel) != "." {
					left = append(left, rel)
				}
				return err
			}); err != nil && kept != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(at("")); os.IsNotExist(err) != (kept == nil) || !slices.Equal(left, kept) {
				t.Errorf("%q are left, want %q: %v", left, kept, err)
			}
		})
	}
}
