package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Chain is what has been read of lines of which each has the hash of the one before.
type Chain struct {
	Lines    int // that follow each other
	Cut      int // last ones of files that are not whole
	previous string
}

// Last is the hash of the last line, empty if there is none.
func (c Chain) Last() string { return c.previous }

// Verify reads the files of a log, the oldest of those put aside first, and fails at the first line that does not follow
// the one before it. The very first one follows whatever there was. A last line of a file that is not whole is counted
// only: it is being written, or a crash has cut it.
func Verify(path string) (c Chain, err error) {
	var files []*os.File // the newest first
	defer func() {
		for _, file := range files {
			_ = file.Close() // was only read
		}
	}()
	for n := range filesKept + 1 {
		name := fmt.Sprintf("%s.%d", path, n)
		if n == 0 {
			name = path
		}
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, err
		}
		// A netmaster may put files aside meanwhile: then the one that was opened last is found once more.
		if len(files) > 0 && isSame(files[len(files)-1], file) {
			_ = file.Close()
			continue
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return c, fmt.Errorf("there is no %s: %w", path, fs.ErrNotExist)
	}
	for _, file := range slices.Backward(files) {
		if err := c.read(file); err != nil {
			return c, fmt.Errorf("%s, %w", file.Name(), err)
		}
	}
	return c, nil
}

func isSame(a, b *os.File) bool {
	one, err := a.Stat()
	other, failed := b.Stat()
	return err == nil && failed == nil && os.SameFile(one, other)
}

func (c *Chain) read(in io.Reader) error {
	lines := bufio.NewReaderSize(in, 2*longest)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				c.Cut++
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		line = line[:len(line)-1]
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if c.Lines > 0 && e.Previous != c.previous {
			return fmt.Errorf("line %d: it does not follow the line before it, which was changed, or lines between them were taken out", n)
		}
		c.previous = hashOf(line)
		c.Lines++
	}
}
