package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.json")
	for _, content := range []string{"first", "second"} {
		if err := Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("content %q, %v", got, err)
		}
	}
	// A directory in the way: the rename fails.
	if err := os.MkdirAll(filepath.Join(dir, "y.json", "z"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "y.json"), nil); err == nil {
		t.Error("a directory was overwritten")
	}
	if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if names, err := List(dir, ".json"); err != nil || len(names) != 1 {
		t.Errorf("files: %v, %v", names, err)
	}
	if err := Write(filepath.Join(dir, "gone", "x"), nil); err == nil {
		t.Error("a file in a directory that is not there was written")
	}
}
