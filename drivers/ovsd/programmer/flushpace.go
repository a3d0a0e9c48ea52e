package programmer

import "time"

// While a flush walks the table of connections, ovs-vswitchd adds no port and accepts no flow: new pods wait.
// If it forwards packets itself, in the thread that does the rest, as it does between links of the kernel, they
// wait, too. In a table of 100,000 connections, which one flooding pod fills, each flush took 0.1 s. Flushes
// are timed, so that a step is about as long as flushStep, or one flush if that is longer. After it the switch
// has as much time for others; and up to restParts times as much if a flush is long and can wait. So those
// delay few of the new pods. They are done in patientTime, before the address of a removed pod is assigned to
// another one (netmaster/master/cooldown.go), if the switch can do that in half of its time.
const (
	flushStep   = 10 * time.Millisecond
	flushMost   = 2 // in a step: the table may have grown since the last one
	flushLong   = 5 * time.Millisecond
	restParts   = 20
	restMost    = 5 * time.Second
	patientTime = 40 * time.Second
)

// flushPace is the duration of flushes in the last step. Its zero value means that there was no step.
type flushPace struct {
	ended time.Time
	took  time.Duration
	each  time.Duration
}

// note records a step of some flushes.
func (p *flushPace) note(flushes int, began, ended time.Time) {
	if flushes > 0 {
		took := ended.Sub(began)
		*p = flushPace{ended: ended, took: took, each: took / time.Duration(flushes)}
	}
}

// isLong reports whether a flush takes so long that it delays other work noticeably.
func (p *flushPace) isLong() bool { return p.each > flushLong }

// atOnce returns the number of flushes of the next step.
func (p *flushPace) atOnce() int {
	return max(1, min(flushMost, int(flushStep/max(p.each, 1))))
}

// next returns when the next step may begin, with so many flushes left that can wait, or cannot.
func (p *flushPace) next(patient bool, left int) time.Time {
	rest := p.took
	if patient && p.isLong() {
		rest = max(rest, min(restParts*p.took, patientTime/time.Duration(max(left, 1))-p.took))
	}
	return p.ended.Add(min(rest, restMost))
}
