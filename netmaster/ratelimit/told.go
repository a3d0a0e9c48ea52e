package ratelimit

import (
	"time"

	"golang.org/x/time/rate"
)

// Telling is a kind of what is told of a client: the first ones, and then one in a while.
type Telling int

// The kinds.
const (
	Excess   Telling = iota // the first one
	Refusal                 // a hundred: they show what somebody tries who is known
	Forecast                // likewise, of what would have been refused
	tellings
)

// toldFirst is how many are told before the others have to wait.
var toldFirst = [tellings]int{Excess: 1, Refusal: 100, Forecast: 100}

// toldEvery is how often one of those that have to wait is worth telling.
const toldEvery = 10 * time.Second

// Told is what was told of a client of one kind; empty: nothing.
type Told struct {
	room *rate.Limiter
	left int64 // were not told since the last one that was
}

// Tell tells whether one more is worth telling, and how many were not since the last that was.
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

// silent tells whether nothing has been told for so long that all begins anew.
func silent(told [tellings]Told, now time.Time) bool {
	for kind, t := range told {
		if t.room != nil && t.room.TokensAt(now) < float64(toldFirst[kind]) {
			return false
		}
	}
	return true
}
