package ratelimit

import (
	"time"

	"golang.org/x/time/rate"
)

// Telling is a kind of event of a client, of which the first are reported and later ones once in a while.
type Telling int

// The kinds.
const (
	Excess   Telling = iota // only the first is reported at once
	Refusal                 // the first hundred: they show what a known client attempts
	Forecast                // likewise, for requests that would have been refused
	tellings
)

// toldFirst is how many events are reported before the rate limit applies.
var toldFirst = [tellings]int{Excess: 1, Refusal: 100, Forecast: 100}

// toldEvery is the interval of reports beyond those.
const toldEvery = 10 * time.Second

// Told is the rate limit of reports of one client and kind; zero: none were reported yet.
type Told struct {
	room *rate.Limiter
	left int64 // not reported since the last report
}

// Tell reports whether another event should be reported, and returns how many were not since the last report.
func (t *Told) Tell(kind Telling, now time.Time) (left int64, worth bool) {
	if t.room == nil {
		t.room = rate.NewLimiter(rate.Every(toldEvery), toldFirst[kind])
	}
	if !t.room.AllowN(now, 1) {
		t.left++
		return 0, false
	}
	left, t.left = t.left, 0
	return left, true
}

// silent reports whether the last reports are so long ago that all rate limits are full again.
func silent(told [tellings]Told, now time.Time) bool {
	for kind, t := range told {
		if t.room != nil && t.room.TokensAt(now) < float64(toldFirst[kind]) {
			return false
		}
	}
	return true
}
