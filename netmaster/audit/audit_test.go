package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// written adds entries and returns the file once they are there.
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

func TestLinesFollowEachOtherAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contiv", "audit.log")
	written(t, New(path, quiet()), "a", "b")
	text := written(t, New(path, quiet()), "c", "d")
	if n, err := Verify(bytes.NewReader(text)); n != 4 || err != nil {
		t.Fatalf("%d lines, %v:\n%s", n, err, text)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for name, changed := range map[string]string{
		"changed":   strings.Replace(string(text), `"key":"b"`, `"key":"x"`, 1),
		"taken out": lines[0] + lines[2] + lines[3],
		"exchanged": lines[1] + lines[0] + lines[2] + lines[3],
		"cut":       string(text[:len(text)-3]),
	} {
		if n, err := Verify(strings.NewReader(changed)); err == nil {
			t.Errorf("%s: not found in %d lines", name, n)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestALineThatACrashCutIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	before := written(t, New(path, quiet()), "a", "b")
	if err := os.WriteFile(path, append(before, `{"time":`...), 0o640); err != nil {
		t.Fatal(err)
	}
	after := written(t, New(path, quiet()), "c")
	if n, err := Verify(bytes.NewReader(append(before, after...))); n != 3 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}

func TestFilesArePutAsideAndTheOldestGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(path, quiet())
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
	if n, err := Verify(bytes.NewReader(all)); n < 40 || n > 121 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > filesKept+1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestWhatFindsNoRoomIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(path, quiet())
	for range waiting + 7 {
		l.Add(Entry{Key: "k"})
	}
	text := written(t, l)
	if n, err := Verify(bytes.NewReader(text)); n != waiting || err != nil || !strings.Contains(string(text[:1000]), `"lost":7`) {
		t.Errorf("%d lines, %v", n, err)
	}
	var none *Log
	none.Add(Entry{})
	none.Run(t.Context())
}

func TestALogThatCannotBeWrittenLosesAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "no", "audit.log")
	if err := os.WriteFile(filepath.Join(dir, "no"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := New(path, quiet())
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
