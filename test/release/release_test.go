// Package release tests the files that are made for users of the source.
package release

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// TestLongTwoBuildsInTwoPlacesAreEqual builds the programs twice, at other places, at other times and with
// nothing that was compiled before.
func TestLongTwoBuildsInTwoPlacesAreEqual(t *testing.T) {
	testkit.TakesLong(t)
	var sums [2]map[string][sha256.Size]byte
	for i, name := range []string{"a", "another-place"} {
		dir := filepath.Join(t.TempDir(), name)
		execute(t, "..", "git", "clone", "--quiet", "--local", "..", dir)
		execute(t, dir, "env", "GOCACHE="+t.TempDir(), "GOFLAGS=", "make", "build")
		sums[i] = sumsOf(t, filepath.Join(dir, "bin"))
	}
	if len(sums[0]) < 4 {
		t.Fatalf("%d programs were built", len(sums[0]))
	}
	for name, sum := range sums[0] {
		if sums[1][name] != sum {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

func sumsOf(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][sha256.Size]byte{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sums[e.Name()] = sha256.Sum256(data)
	}
	return sums
}

func execute(t *testing.T, dir string, command ...string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}
