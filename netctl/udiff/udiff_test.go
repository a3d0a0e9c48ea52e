package udiff

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDifferencesAreShownWithTheirSurroundings(t *testing.T) {
	old := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n"
	changed := "a\nb\nc\nd\nE\nf\ng\nh\ni\nj\nk\nl\nm\nn\n"
	want := `--- live
+++ file
@@ -2,7 +2,7 @@
 b
 c
 d
-e
+E
 f
 g
 h
@@ -11,3 +11,4 @@
 k
 l
 m
+n
`
	if diff := cmp.Diff(want, Unified("live", "file", old, changed)); diff != "" {
		t.Error(diff)
	}
	if got := Unified("x", "y", "a\nb\n", ""); got != "--- x\n+++ y\n@@ -1,2 +0,0 @@\n-a\n-b\n" {
		t.Errorf("removal of everything: %q", got)
	}
	if got := Unified("x", "y", old, old); got != "" {
		t.Errorf("equal texts: %q", got)
	}
}

// The edit script makes one text of the other, and so does patch(1), where there is one.
func TestPatchUnderstandsEveryDifference(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		patch = "" // the edit script is still checked
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 30)
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		old, new := strings.Join(a, "\n")+"\n", strings.Join(b, "\n")+"\n"
		var before, after []string
		for _, l := range edits(a, b) {
			if l.mark != '+' {
				before = append(before, l.text)
			}
			if l.mark != '-' {
				after = append(after, l.text)
			}
		}
		if diff := cmp.Diff([][]string{a, b}, [][]string{before, after}); diff != "" {
			t.Fatal(diff)
		}
		diff := Unified("a", "b", old, new)
		if patch == "" || diff == "" {
			return
		}
		file := filepath.Join(dir, "text")
		if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(patch, "--quiet", file)
		cmd.Stdin = strings.NewReader(diff)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, diff)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != new {
			t.Fatalf("patched into %q, want %q\n%s", got, new, diff)
		}
	})
}
