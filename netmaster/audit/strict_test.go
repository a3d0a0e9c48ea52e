package audit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// running runs a log until the test ends, or stop is called.
func running(t *testing.T, l *Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { l.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// In strict mode, Begin returns whether the change is recorded.
func TestAChangeBeginsWhenItIsWrittenDown(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log", "audit.log")
	l := New(path, testkit.Quiet())
	l.Strict()
	stop := running(t, l)
	var begun sync.WaitGroup
	for i := range 500 {
		begun.Go(func() {
			if err := l.Begin(t.Context(), Entry{Key: fmt.Sprintf("key%d.", i)}); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, fmt.Appendf(nil, "key%d.", i)) {
				t.Errorf("%d begins before it is in the file: %v", i, err)
			}
		})
	}
	begun.Wait()
	stop()
	text, err := os.ReadFile(path)
	if n, bad := verify(bytes.NewReader(text)); err != nil || bad != nil || n != 500 || strings.Count(string(text), `"decision":"begun"`) != 500 {
		t.Errorf("%d lines, %v, %v", n, err, bad)
	}
}

// A file that is full and cannot be renamed is gone on with: each line is on the disk.
func TestAChangeBeginsThoughTheFileCannotBePutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.Mkdir(fmt.Sprint(path, ".", filesKept), 0o750); err != nil { // in the way
		t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprint(path, ".", filesKept-1), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := New(path, testkit.Quiet())
	l.size = 300
	l.Strict()
	stop := running(t, l)
	for i := range 10 {
		if err := l.Begin(t.Context(), Entry{Key: fmt.Sprint("key", i)}); err != nil {
			t.Error(err)
		}
	}
	stop()
	text, err := os.ReadFile(path)
	if n, bad := verify(bytes.NewReader(text)); err != nil || bad != nil || n != 10 || strings.Contains(string(text), `"lost"`) {
		t.Errorf("%d lines, %v, %v: %s", n, err, bad, text)
	}
}

// While nothing can be written no change begins; refused entries are not counted as lost afterwards.
func TestNothingBeginsThatCannotBeWrittenDown(t *testing.T) {
	dir := t.TempDir()
	wrong := filepath.Join(dir, "log")
	if err := os.WriteFile(wrong, nil, 0o600); err != nil { // where a folder is wanted
		t.Fatal(err)
	}
	l := New(filepath.Join(wrong, "audit.log"), testkit.Quiet())
	l.Strict()
	stop := running(t, l)
	for range 3 {
		if err := l.Begin(t.Context(), Entry{Key: "refused"}); !fault.Is(err, fault.Unavailable) {
			t.Fatalf("begins: %v", err)
		}
	}
	if err := os.Remove(wrong); err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(t.Context(), Entry{Key: "allowed"}); err != nil {
		t.Error(err)
	}
	stop()
	if n := l.Lost(); n != 3 {
		t.Errorf("%d lines that could not be written are counted for the metrics, want 3", n)
	}
	text, err := os.ReadFile(filepath.Join(wrong, "audit.log"))
	if n, bad := verify(bytes.NewReader(text)); err != nil || bad != nil || n != 1 || strings.Contains(string(text), `"lost"`) {
		t.Errorf("%v, %v: %s", err, bad, text)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Begin(ended, Entry{}); !fault.Is(err, fault.Unavailable) { // the writer has ended
		t.Errorf("after the end: %v", err)
	}
	for _, usual := range []*Log{nil, New(filepath.Join(dir, "x", "y"), testkit.Quiet())} {
		if err := usual.Begin(t.Context(), Entry{}); err != nil {
			t.Errorf("a log that is not strict: %v", err)
		}
	}
}
