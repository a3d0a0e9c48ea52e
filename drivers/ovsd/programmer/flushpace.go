package programmer

import "time"

// While a flush walks through the table of connections, ovs-vswitchd adds no port and takes no flow: a pod that comes
// waits; and where it forwards packets itself, by the thread that does the rest, as it does between links of the
// kernel, they wait, too. In a table of 100,000 connections, which one flooding pod fills, that has been seen to be 0.1
// s for each flush. Flushes are timed, so that a step is about as long as flushStep, or one flush where that is longer.
// After it the switch has as much time for others; and up to restParts times as much where a flush is long and what it
// ends can wait. So those hold up few of the pods that come. They are over in patientTime, before the address of a pod
// that has gone is given to another one (netmaster/master/cooldown.go), if the switch can do that in half of its time.
const (
	flushStep   = 10 * time.Millisecond
	flushMost   = 2 // in a step: the table may have grown since the last one
	flushLong   = 5 * time.Millisecond
	restParts   = 20
	restMost    = 5 * time.Second
	patientTime = 40 * time.Second
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

// isLong tells whether a flush takes so long that it delays other work noticeably.
func (p *flushPace) isLong() bool { return p.each > flushLong }

// atOnce is how many flushes the next step is to have.
func (p *flushPace) atOnce() int {
	return max(1, min(flushMost, int(flushStep/max(p.each, 1))))
}

// next is when the next step may begin, if so many flushes are to come and can wait, or cannot.
func (p *flushPace) next(patient bool, left int) time.Time {
	rest := p.took
	if patient && p.isLong() {
		rest = max(rest, min(restParts*p.took, patientTime/time.Duration(max(left, 1))-p.took))
	}
	return p.ended.Add(min(rest, restMost))
}
