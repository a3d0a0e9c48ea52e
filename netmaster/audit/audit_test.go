package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/testkit"
)

// written adds entries and returns the file once it has them.
func written(t *testing.T, l *Log, keys ...string) []byte {
	t.Helper()
	for _, key := range keys {
		l.Add(Entry{Key: key, Decision: Allowed})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ended)
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// linesWith returns the file once it has a text.
func linesWith(t *testing.T, path, text string) (all []byte) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, "the file has "+text, func() (has bool) {
		all, _ = os.ReadFile(path) // it may not be there yet
		return bytes.Contains(all, []byte(text))
	})
	return all
}

func TestLinesFollowEachOtherAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contiv", "audit.log")
	written(t, New(path, testkit.Quiet()), "a", "b")
	text := written(t, New(path, testkit.Quiet()), "c", "d")
	if n, err := verify(bytes.NewReader(text)); n != 4 || err != nil {
		t.Fatalf("%d lines, %v:\n%s", n, err, text)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for name, changed := range map[string]string{
		"changed":   strings.Replace(string(text), `"key":"b"`, `"key":"x"`, 1),
		"taken out": lines[0] + lines[2] + lines[3],
		"exchanged": lines[1] + lines[0] + lines[2] + lines[3],
		"cut":       string(text[:len(text)-3]),
	} {
		if n, err := verify(strings.NewReader(changed)); err == nil {
			t.Errorf("%s: not found in %d lines", name, n)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestALineThatACrashCutIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	before := written(t, New(path, testkit.Quiet()), "a", "b")
	if err := os.WriteFile(path, append(before, `{"time":`...), 0o640); err != nil {
		t.Fatal(err)
	}
	after := written(t, New(path, testkit.Quiet()), "c")
	if n, err := verify(bytes.NewReader(append(before, after...))); n != 3 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}

func TestFilesArePutAsideAndTheOldestGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(path, testkit.Quiet())
	l.size = 1000
	var keys []string
	for i := range 120 {
		keys = append(keys, fmt.Sprint("key", i))
	}
	all := written(t, l, append(keys, "last")...)
	for n := 1; n <= filesKept; n++ {
		text, err := os.ReadFile(fmt.Sprintf("%s.%d", path, n))
		if err != nil {
			t.Fatal(err)
		}
		all = append(text, all...)
	}
	if n, err := verify(bytes.NewReader(all)); n < 40 || n > 121 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > filesKept+1 {
		t.Errorf("%v, %v", left, err)
	}
}

// Also where the line before is in a file that was put aside, behind one that has no whole line.
func TestTheFirstLineAfterAStartFollowsWhatWasPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	before := written(t, New(path, testkit.Quiet()), "a")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	for _, here := range []string{"", `{"time`} {
		if err := os.WriteFile(path, []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
		after := written(t, New(path, testkit.Quiet()), "b")
		if n, err := verify(bytes.NewReader(append(bytes.Clone(before), after...))); n != 2 || err != nil {
			t.Errorf("after %q: %d lines, %v: %s", here, n, err, after)
		}
	}
}

func TestWhatFindsNoRoomIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(path, testkit.Quiet())
	for range waiting + 7 {
		l.Add(Entry{Key: "k"})
	}
	text := written(t, l)
	if n, err := verify(bytes.NewReader(text)); n != waiting || err != nil || !strings.Contains(string(text[:1000]), `"lost":7`) {
		t.Errorf("%d lines, %v", n, err)
	}
	if n := l.Lost(); n != 7 {
		t.Errorf("%d are counted", n)
	}
	var none *Log
	if none.Lost() != 0 || none.Uncopied() != 0 {
		t.Error("no log has lost something")
	}
	none.Add(Entry{})
	none.Run(t.Context())
}

// A stranger chooses the path: no line is longer than readers accept.
func TestTextsThatAreTooLongAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	long := strings.Repeat("<\xff", 32<<10)
	l := New(path, testkit.Quiet())
	l.Add(Entry{Principal: long, Source: long, Verb: long, Key: "/api/" + long, About: long, Tenant: long, Reason: long, How: long, Request: long, Revision: long, Objects: slices.Repeat([]string{long, strings.Repeat("<", 500)}, 50)}.Brief())
	written(t, l)
	text := written(t, New(path, testkit.Quiet()), "next")
	if n, err := verify(bytes.NewReader(text)); n != 2 || err != nil || len(text) > longest {
		t.Errorf("%d lines of %d bytes, %v", n, len(text), err)
	}
}

// The file is kept while the disk is full, and the chain goes on once there is room.
func TestAFullDiskPutsNothingAside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("a small disk: %v", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	path, filler := filepath.Join(dir, "audit.log"), filepath.Join(dir, "filler")
	l := New(path, testkit.Quiet())
	before := written(t, l, "first")
	l = New(path, testkit.Quiet())
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint(i, strings.Repeat("k", 400)))
	}
	full := written(t, l, keys...)
	if !bytes.HasPrefix(full, before) || l.Lost() < 2*filesKept {
		t.Errorf("%d entries lost, left %d bytes", l.Lost(), len(full))
	}
	if aside, err := filepath.Glob(path + ".*"); err != nil || len(aside) > 0 {
		t.Errorf("put aside: %v, %v", aside, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	lost := l.Lost()
	after := written(t, l, "last")
	if !strings.Contains(string(after), fmt.Sprintf(`"lost":%d,`, lost)) || l.Lost() != lost {
		t.Errorf("%d are lost, and %d after the line that tells: %s", lost, l.Lost(), after[len(full):])
	}
	if n, err := verify(bytes.NewReader(after)); err != nil || n < 2 || !bytes.HasPrefix(after, full) || !strings.Contains(string(after), `"lost":`) {
		t.Errorf("%d lines, %v", n, err)
	}
}

func TestALogThatCannotBeWrittenLosesAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "no", "audit.log")
	if err := os.WriteFile(filepath.Join(dir, "no"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := New(path, testkit.Quiet())
	l.Add(Entry{Key: "lost"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ended)
	if err := os.Remove(filepath.Join(dir, "no")); err != nil {
		t.Fatal(err)
	}
	if text := written(t, l, "there"); !strings.Contains(string(text), `"key":"there"`) || !strings.Contains(string(text), `"lost":1`) {
		t.Errorf("%s", text)
	}
}

// Another program may remove, move, replace or shorten the file of a running netmaster. Then lines go on in the file
// of that name, and their hashes show that others are missing.
func TestLinesGoOnWhenAnotherProgramTakesTheFileAway(t *testing.T) {
	for name, take := range map[string]func(path string, text []byte) error{
		"removed":   func(path string, _ []byte) error { return os.Remove(path) },
		"moved":     func(path string, _ []byte) error { return os.Rename(path, path+".old") },
		"emptied":   func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"shortened": func(path string, text []byte) error { return os.Truncate(path, int64(bytes.IndexByte(text, '\n')+1)) },
		"replaced": func(path string, text []byte) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, text[:bytes.IndexByte(text, '\n')+1], 0o600))
		},
		"a directory, which goes again": func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			l := New(path, testkit.Quiet())
			running, end := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); l.Run(running) }()
			defer func() { end(); <-ended }()

			l.Add(Entry{Key: "first"})
			l.Add(Entry{Key: "second"})
			before := linesWith(t, path, `"key":"second"`)
			if err := take(path, before); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				l.Add(Entry{Key: "lost"})
				testkit.Eventually(t, 10*time.Second, "the entry is lost", func() bool { return l.lost.unreported.Load() == 1 })
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			l.Add(Entry{Key: "third"})
			after := linesWith(t, path, `"key":"third"`)
			lines := bytes.Split(bytes.TrimSuffix(before, []byte("\n")), []byte("\n"))
			if !bytes.Contains(after, []byte(hashOf(lines[len(lines)-1]))) || bytes.Contains(after, []byte(`"key":"second"`)) {
				t.Errorf("%s", after)
			}
		})
	}
}

// A change of many objects has as many lines as their names need, each with all other fields as well; an entry
// without effect has one line.
func TestAllObjectsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	var objects []string
	for i := range 5000 {
		objects = append(objects, fmt.Sprint("created network blue:net", i))
	}
	l := New(path, testkit.Quiet())
	l.Add(Entry{Key: "k", Objects: objects, Untold: 7})
	l.Add(Entry{Key: "brief", Objects: objects}.Brief())
	l.Add(Entry{Key: "few", Objects: objects[:1]}.Brief())
	text := written(t, l)
	if _, err := verify(bytes.NewReader(text)); err != nil {
		t.Error(err)
	}
	var named []string
	var last []Entry
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case len(line) > 2*longestList || (e.Untold == 7) != (i == 0):
			t.Errorf("line %d: %.200s", i, line)
		case e.Key == "k":
			named = append(named, e.Objects...)
		default:
			last = append(last, e)
		}
	}
	if !slices.Equal(named, objects) {
		t.Errorf("%d objects are named", len(named))
	}
	if len(last) != 2 || len(last[0].Objects)+last[0].More != len(objects) || last[0].More == 0 || len(last[1].Objects) != 1 || last[1].More != 0 {
		t.Errorf("%+v", last)
	}
}
