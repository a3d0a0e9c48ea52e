package bgp

import (
	"maps"
	"time"
)

// complaints are the library's warnings that were logged, with the time. Anybody who can connect to the node can cause the same
// warning again and again, so each is logged once per toldAgain; inspection has the present state. The map stays small: the
// number of neighbours is limited, and older entries are removed.
type complaints map[complaint]time.Time

// complaint is a message about a neighbour; about is empty for all other machines together.
type complaint struct{ about, message string }

// fresh tells whether a complaint is to be logged now, and notes that it is.
func (c complaints) fresh(what complaint, now time.Time) bool {
	c.forget(now)
	if _, said := c[what]; said {
		return false
	}
	c[what] = now
	return true
}

func (c complaints) forget(now time.Time) {
	maps.DeleteFunc(c, func(_ complaint, said time.Time) bool { return now.Sub(said) >= toldAgain })
}
