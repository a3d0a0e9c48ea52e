package logging

import (
	"fmt"
	"sync"
	"time"
)

// Trouble is what the log was told of last. The zero value is that it was told nothing.
type Trouble struct {
	mu   sync.Mutex
	text string
	told time.Time
}

// toldAgain is after what time the log is told the same.
const toldAgain = time.Minute

// IsNews tells whether the log has to be told, and takes it that it is.
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

// Over has the next trouble be news, whatever it is.
func (t *Trouble) Over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = ""
}
