package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
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

// A writer that is killed before its rename leaves a file. Only a starting owner removes it, and leaves alone
// files that are being written and those that are not a writer's.
func TestWhatKilledWritersLeftGoesAtTheNextStart(t *testing.T) {
	started := time.Now()
	long, short := started.Add(-time.Hour), started.Add(-time.Second)
	for name, c := range map[string]struct {
		file  string
		mode  os.FileMode
		at    time.Time
		old   bool // removed where others may be writing
		sweep bool // removed where there are no other writers
	}{
		"of a writer that was killed":           {".tmp-1234567890", 0o600, long, true, true},
		"that may be written at the moment":     {".tmp-1234567890", 0o600, short, false, true},
		"of a time that is to come":             {".tmp-1234567890", 0o600, started.Add(time.Hour), false, true},
		"with another name":                     {".tmp-mine", 0o600, long, false, false},
		"with a name that goes on":              {".tmp-1234.json", 0o600, long, false, false},
		"with the beginning of a name":          {".tmp-", 0o600, long, false, false},
		"that is a directory":                   {".tmp-1234567890", os.ModeDir | 0o700, long, false, false},
		"that is a link to what is somebody's":  {".tmp-1234567890", os.ModeSymlink, long, false, false},
		"that is what writers write at the end": {"1234567890", 0o600, long, false, false},
	} {
		for what, way := range map[string]struct {
			sweep func(dir string) error
			goes  bool
		}{
			"of a directory to which others may write": {func(dir string) error { return SweepOld(started, filepath.Join(dir, "gone"), dir) }, c.old},
			"of one to which nobody writes":            {Sweep, c.sweep},
		} {
			dir := t.TempDir()
			path, other := filepath.Join(dir, c.file), filepath.Join(t.TempDir(), "x")
			err := os.WriteFile(other, nil, 0o600)
			switch {
			case c.mode.IsDir():
				err = errors.Join(err, os.Mkdir(path, c.mode.Perm()))
			case c.mode&os.ModeSymlink != 0:
				err = errors.Join(err, os.Symlink(other, path))
			default:
				err = errors.Join(err, os.WriteFile(path, nil, c.mode))
			}
			if err := errors.Join(err, os.Chtimes(path, c.at, c.at), way.sweep(dir)); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(path); os.IsNotExist(err) != way.goes {
				t.Errorf("a file %s, %s: %v; want it to go: %v", name, what, err, way.goes)
			}
			if _, err := os.Stat(other); err != nil {
				t.Errorf("a file %s, %s: what it leads to: %v", name, what, err)
			}
		}
	}
}

// The names that are swept are those of writers.
func TestAKilledWriterLeavesAFileThatIsSwept(t *testing.T) {
	dir, killed := t.TempDir(), errors.New("killed")
	func() {
		defer func() { _ = recover() }() // it ends there, as by a signal
		_ = write(filepath.Join(dir, "x"), []byte("half"), func(*os.File) error { panic(killed) })
	}()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("left: %v, %v", left, err)
	}
	if err := SweepOld(time.Now().Add(2*overlap), dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
