package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// verify returns the number of lines that follow each other.
func verify(in io.Reader) (int, error) {
	var c Chain
	err := c.read(in)
	if err == nil && c.Cut > 0 {
		err = errors.New("the last line is not whole")
	}
	return c.Lines, err
}

// chained makes so many lines, each after the one before.
func chained(t *testing.T, from, to int, previous string) (text, last string) {
	t.Helper()
	for n := from; n < to; n++ {
		line, err := json.Marshal(Entry{Principal: fmt.Sprint("user/", n), Previous: previous})
		if err != nil {
			t.Fatal(err)
		}
		text, previous = text+string(line)+"\n", hashOf(line)
	}
	return text, previous
}

func TestTheFilesOfALogAreOneChain(t *testing.T) {
	oldest, last := chained(t, 0, 5, "of a file that is gone")
	middle, last := chained(t, 5, 9, last)
	newest, last := chained(t, 9, 12, last)
	for name, c := range map[string]struct {
		oldest, middle, newest string
		lines                  int
		why                    string // empty: all is well
	}{
		"whole":                      {oldest, middle, newest, 12, ""},
		"a file is not there":        {"", middle, newest, 7, ""},
		"a crash cut the middle one": {oldest, middle + `{"principal":"us`, newest, 12, ""},
		"it is being written":        {oldest, middle, newest + `{"principal":"us`, 12, ""},
		"a line is changed":          {oldest, strings.Replace(middle, "user/6", "user/7", 1), newest, 7, "audit.log.1, line 3: it does not follow"},
		"a line is taken out":        {oldest[strings.IndexByte(oldest, '\n')+1:], middle, newest[strings.IndexByte(newest, '\n')+1:], 8, "audit.log, line 1: it does not follow"},
		"a file is taken out":        {oldest, "", newest, 5, "audit.log, line 1"},
		"nonsense":                   {oldest, "nonsense\n", newest, 5, "audit.log.1, line 1"},
		"an endless line":            {oldest, strings.Repeat("x", 1<<20), newest, 5, "audit.log.1, line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			for suffix, text := range map[string]string{".2": c.oldest, ".1": c.middle, "": c.newest} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(path+suffix, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Verify(path)
			if got.Lines != c.lines || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%d lines, %v; want %d, %q", got.Lines, err, c.lines, c.why)
			}
			if err == nil && got.Last() != last {
				t.Errorf("the last one is %s, want %s", got.Last(), last)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := errors.Join(os.WriteFile(path+".2", []byte(oldest), 0o600), os.WriteFile(path, []byte(middle), 0o600), os.Link(path, path+".1")); err != nil {
		t.Fatal(err)
	}
	if c, err := Verify(path); err != nil || c.Lines != 9 {
		t.Errorf("a file that is put aside meanwhile is read twice, or not: %d lines, %v", c.Lines, err)
	}
	if _, err := Verify(filepath.Join(t.TempDir(), "audit.log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Reading files of any content ends, and an accepted chain is one.
func FuzzChain(f *testing.F) {
	for _, seed := range []string{"", "\n", "{}\n{}\n", `{"principal":"user/1"}` + "\n" + `{"principal":"user/2","prev":"x"}` + "\n", "[]\n", `{"principal":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Chain
		err := c.read(bytes.NewReader(text))
		lines := c.Lines
		if whole := bytes.Count(text, []byte("\n")); lines > whole || err == nil && lines != whole {
			t.Errorf("%d lines of %d, %v", lines, whole, err)
		}
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		last, size, _, err := lastLine(path)
		if err != nil || size != int64(len(text)) || last != nil && !bytes.Contains(text, append(bytes.Clone(last), '\n')) {
			t.Errorf("last line %q of %d bytes, %v", last, size, err)
		}
	})
}
