package programmer

import "time"

// While a flush walks through the table of connections, ovs-vswitchd adds no port and takes no flow: a pod that comes
// waits. In a table of 100,000 connections, which one flooding pod fills, that has been seen to be 0.1 s for each flush.
// Flushes are timed, so that a step is about as long as flushStep, or one flush where that is longer. After it the switch
// has as much time for others; and restParts times as much where a flush is long and what it ends can wait. So those hold
// up few of the pods that come.
const (
	flushStep = 10 * time.Millisecond
	flushMost = 12 // in a step
	flushLong = 5 * time.Millisecond
	restParts = 20
	restMost  = 5 * time.Second
)

// flushPace is what the last step tells of how long flushes take. Its zero value is that of no step.
type flushPace struct {
	ended time.Time
	took  time.Duration
	each  time.Duration
}

// note notes a step of some flushes.
func (p *flushPace) note(flushes int, began, ended time.Time) {
	if flushes > 0 {
		took := ended.Sub(began)
		*p = flushPace{ended: ended, took: took, each: took / time.Duration(flushes)}
	}
}

// atOnce is how many flushes the next step is to have.
func (p *flushPace) atOnce() int {
	return max(1, min(flushMost, int(flushStep/max(p.each, 1))))
}

// next is when the next step may begin.
func (p *flushPace) next(patient bool) time.Time {
	rest := p.took
	if patient && p.each > flushLong {
		rest *= restParts
	}
	return p.ended.Add(min(rest, restMost))
}
