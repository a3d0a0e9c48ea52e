package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// Each end of a session is logged. A session that ends repeatedly is reported as flapping, in the log and in
// inspection: it may be established at the moment when an operator looks.
const (
	// flapWindow is the time in which ends of sessions are counted.
	flapWindow = 5 * time.Minute
	// manyEnds is the number of ends in that time from which a neighbour counts as flapping. A few restarts cause
	// fewer.
	manyEnds = 5
	// logPause is the minimum time between two log lines with the same content, such as that a neighbour flaps.
	logPause = time.Minute
)

// flaps are the ends of the sessions with one neighbour.
type flaps struct {
	ends   []time.Time // those that count, oldest first; the library's pauses keep them few
	cause  string      // of the last one
	logged time.Time
}

// add records the end of a session.
func (f *flaps) add(now time.Time, cause string) {
	f.ends, f.cause = append(f.ends, now), cause
	f.forget(now)
}

func (f *flaps) forget(now time.Time) {
	f.ends = slices.DeleteFunc(f.ends, func(end time.Time) bool { return now.Sub(end) > flapWindow })
}

// text describes how much a neighbour flaps; empty if it does not.
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

// levelOf returns the level at which events of a neighbour's session are logged: the usual one, or debug while it
// flaps. Then the flapping is logged instead, once per logPause. The caller holds the lock.
func (s *Speaker) levelOf(neighbour netip.Addr, log *logrus.Entry, usual logrus.Level) logrus.Level {
	f, now := s.flaps[neighbour], time.Now()
	text := f.text(now)
	if text == "" {
		return usual
	}
	if now.Sub(f.logged) >= logPause {
		f.logged = now
		log.WithField("cause", text).Warn("BGP neighbour flaps: its session comes and goes")
	}
	return logrus.DebugLevel
}

// sessionEnds records the end of a session with a neighbour. The caller holds the lock.
func (s *Speaker) sessionEnds(neighbour netip.Addr, cause string) {
	f := s.flaps[neighbour]
	if f == nil {
		f = &flaps{}
		s.flaps[neighbour] = f
	}
	f.add(time.Now(), cause)
}
