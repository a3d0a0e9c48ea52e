package testkit

import (
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
)

// Text collects the output of another goroutine, readable meanwhile. The zero value is empty.
type Text struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Recorded returns a log, and its output.
func Recorded() (*logrus.Entry, *Text) {
	l, text := logrus.New(), &Text{}
	l.SetOutput(text)
	return logrus.NewEntry(l), text
}
