package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// A session that ends now and then is told of each time. One that ends again and again is told of as such, where operators look:
// when they do, it may just be there.
const (
	// flapWindow is how long the end of a session counts.
	flapWindow = 5 * time.Minute
	// manyEnds is how many ends in that time are flapping. A link or a router that restarts a few times has fewer.
	manyEnds = 5
	// toldAgain is the time between two messages of the same, as that a neighbour flaps. What happens to its session meanwhile is a detail.
	toldAgain = time.Minute
)

// flaps are the ends of the sessions with one neighbour.
type flaps struct {
	ends  []time.Time // those that count, oldest first; the library's pauses keep them few
	cause string      // of the last one
	told  time.Time
}

// end notes the end of a session.
func (f *flaps) end(now time.Time, cause string) {
	f.ends, f.cause = append(f.ends, now), cause
	f.forget(now)
}

func (f *flaps) forget(now time.Time) {
	f.ends = slices.DeleteFunc(f.ends, func(end time.Time) bool { return now.Sub(end) > flapWindow })
}

// text says how much a neighbour flaps; empty: it does not.
func (f *flaps) text(now time.Time) string {
	if f == nil {
		return ""
	}
	if f.forget(now); len(f.ends) < manyEnds {
		return ""
	}
	text := fmt.Sprintf("%d sessions have ended in %s", len(f.ends), flapWindow)
	if f.cause != "" {
		text += ", the last one: " + f.cause
	}
	return text
}

// levelOf is at which level the log is told of what happens to the session with a neighbour: as usual, or, while it flaps, as a
// detail; that it does is said instead, now and then. It is called with the lock.
func (s *Speaker) levelOf(neighbour netip.Addr, log *logrus.Entry, usual logrus.Level) logrus.Level {
	f, now := s.flaps[neighbour], time.Now()
	text := f.text(now)
	if text == "" {
		return usual
	}
	if now.Sub(f.told) >= toldAgain {
		f.told = now
		log.WithField("cause", text).Warn("BGP neighbour flaps: its session comes and goes")
	}
	return logrus.DebugLevel
}

// sessionEnds notes the end of a session with a neighbour. It is called with the lock.
func (s *Speaker) sessionEnds(neighbour netip.Addr, cause string) {
	f := s.flaps[neighbour]
	if f == nil {
		f = &flaps{}
		s.flaps[neighbour] = f
	}
	f.end(time.Now(), cause)
}
