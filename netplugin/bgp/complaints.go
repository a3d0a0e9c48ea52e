package bgp

import (
	"maps"
	"time"
)

// complaints are what was said as a warning, and when. Who can connect to the node can have the library say the same as often as he
// likes, and what is wrong is in inspection: so it is said now and then. They are few: neighbours have a limit, and what is older than
// a pause is forgotten.
type complaints map[complaint]time.Time

// complaint is what is said about a neighbour; empty: about others, whoever they are.
type complaint struct{ about, message string }

// fresh tells whether it is time to say something, and notes that it is said.
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
