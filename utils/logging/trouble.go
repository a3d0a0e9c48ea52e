package logging

import (
	"fmt"
	"sync"
	"time"
)

// Trouble limits the logging of repeated errors. The zero value is ready for use.
type Trouble struct {
	mu   sync.Mutex
	text string
	told time.Time
}

// toldAgain is how often the same error is logged.
const toldAgain = time.Minute

// IsNews reports whether the error has to be logged, and assumes that the caller does so.
func (t *Trouble) IsNews(err error, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprint(err)
	if age := now.Sub(t.told); t.text == text && age >= 0 && age < toldAgain {
		return false
	}
	t.text, t.told = text, now
	return true
}

// Over makes the next error news, whatever it is.
func (t *Trouble) Over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = ""
}
