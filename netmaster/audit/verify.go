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

// Chain is the state of the verification of a chain of lines, each with the hash of the previous one.
type Chain struct {
	Lines    int // verified lines
	Cut      int // incomplete last lines of files
	previous string
}

// Last returns the hash of the last line, empty if there is none.
func (c Chain) Last() string { return c.previous }

// Verify reads the files of a log, beginning with the oldest rotated one, and returns an error for the first line
// that does not follow the previous one. The very first line may follow any. An incomplete last line of a file is
// only counted: it is being written, or was cut off by a crash.
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
		// A netmaster may rotate files meanwhile: then the last opened file is found again.
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
