package bgp

import (
	"maps"
	"time"
)

// loggedWarnings are the warnings of the library that were logged, with the time. Any client that can connect to
// the node can cause the same warning repeatedly, so each is logged once per logPause; inspection has the present
// state. The map stays small: the number of neighbours is limited, and older entries are removed.
type loggedWarnings map[warning]time.Time

// warning is a message about a neighbour; about is empty for all unknown addresses together.
type warning struct{ about, message string }

// shouldLog reports whether a warning was not logged within logPause, and records that it is logged now.
func (c loggedWarnings) shouldLog(what warning, now time.Time) bool {
	c.forget(now)
	if _, said := c[what]; said {
		return false
	}
	c[what] = now
	return true
}

func (c loggedWarnings) forget(now time.Time) {
	maps.DeleteFunc(c, func(_ warning, said time.Time) bool { return now.Sub(said) >= logPause })
}
