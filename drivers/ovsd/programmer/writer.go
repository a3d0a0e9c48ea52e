package programmer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// switchTime is how long the switch may take to answer, and flowTime the additional time for each requested flow.
const (
	switchTime = 15 * time.Second
	flowTime   = time.Millisecond
)

// refused are the objects of refused writes.
type refused map[pipeline.Key]problem

// problem is why an object was refused.
type problem struct {
	err    error
	judges bool // connections may be admitted or denied wrongly without what was refused (epoch.go)
}

// write writes a batch. The error means that the switch did not answer, and its state is unknown.
func (b batch) write(ctx context.Context, sw Switch) (refused, error) {
	no := refused{}
	if err := sendSteps(ctx, sw, b.meters, no); err != nil {
		return no, err
	}
	if len(b.blocked) > 0 {
		b.bundle = slices.DeleteFunc(b.bundle, func(s step) bool {
			if ofEpoch(s) {
				s.hold()
			}
			return ofEpoch(s)
		})
	}
	if err := writeSteps(ctx, sw, b.bundle, no); err != nil {
		return no, err
	}
	return no, sendSteps(ctx, sw, b.oldMeters, no)
}

// sendSteps writes steps that take effect one by one, as a bundle cannot contain them. They are sent together:
// an answer of a switch with a hundred ports takes it a millisecond and more.
func sendSteps(ctx context.Context, sw Switch, steps []step, no refused) error {
	if len(steps) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, switchTime+time.Duration(len(steps))*flowTime)
	defer cancel()
	refusals, err := sw.SendEach(limited, messagesOf(steps)...)
	switch {
	case err == nil:
	case limited.Err() != nil || ended(sw):
		return fault.New(fault.Unavailable, "meters are not in the switch: %w", err)
	case len(steps) == 1:
		no.add(err, steps...)
		return nil
	default: // one of them cannot be sent
		for i := range steps {
			if err := sendSteps(ctx, sw, steps[i:i+1], no); err != nil {
				return err
			}
		}
		return nil
	}
	for i, s := range steps {
		if refusals[i] == nil {
			s.done()
		} else {
			no.add(refusals[i], s)
		}
	}
	return nil
}

func messagesOf(steps []step) []openflow.Message {
	messages := make([]openflow.Message, len(steps))
	for i, s := range steps {
		messages[i] = s.message
	}
	return messages
}

// add records that steps of one object were refused, and holds them.
func (r refused) add(err error, steps ...step) {
	owner := steps[0].owner
	r[owner] = problem{err, r[owner].judges || slices.ContainsFunc(steps, func(s step) bool { return s.judges })}
	hold(steps)
}

// writeSteps writes steps that take effect together. If the switch refuses them, they are halved until the
// objects at fault are alone; a good object never waits for a bad one.
func writeSteps(ctx context.Context, sw Switch, steps []step, no refused) error {
	if len(steps) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, switchTime+time.Duration(len(steps))*flowTime)
	err := sw.Bundle(limited, messagesOf(steps)...)
	late := limited.Err()
	cancel()
	switch {
	case err == nil:
		for _, s := range steps {
			s.done()
		}
		return nil
	case late != nil || ended(sw):
		return fault.New(fault.Unavailable, "flows are not in the switch: %w", err)
	}
	some, others := halves(steps)
	if len(others) == 0 {
		no.add(err, steps...)
		return nil
	}
	if err := writeSteps(ctx, sw, some, no); err != nil {
		return err
	}
	if ofEpoch(others[0]) && no.affectsJudgement() {
		hold(others)
		return nil
	}
	return writeSteps(ctx, sw, others, no)
}

func hold(steps []step) {
	for _, s := range steps {
		s.hold()
	}
}

func ofEpoch(s step) bool { return s.owner.Kind == pipeline.KindEpoch }

// halves divides steps in two so that those of an object stay together, in their order. The steps of one object cannot be divided.
// The epoch is divided from all others first.
func halves(steps []step) (some, others []step) {
	for _, s := range steps {
		if ofEpoch(s) {
			others = append(others, s)
		} else {
			some = append(some, s)
		}
	}
	if len(some) > 0 && len(others) > 0 {
		return some, others
	}
	some, others = nil, nil
	number := map[pipeline.Key]int{} // of an object, by its first step
	for _, s := range steps {
		if _, known := number[s.owner]; !known {
			number[s.owner] = len(number)
		}
	}
	for _, s := range steps {
		if number[s.owner] < (len(number)+1)/2 {
			some = append(some, s)
		} else {
			others = append(others, s)
		}
	}
	return some, others
}

func ended(sw Switch) bool {
	select {
	case <-sw.Done():
		return true
	default:
		return false
	}
}

// Pauses before a refused object is retried.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// refusals are the objects that the switch did not accept.
type refusals map[pipeline.Key]*refusal

type refusal struct {
	problem
	pause time.Duration
	next  time.Time
}

// note enters the present refusals and returns those of objects that were not refused before.
func (r refusals) note(no refused, now time.Time) (fresh refused) {
	fresh = refused{}
	for owner, problem := range no {
		old, again := r[owner]
		pause := firstRetry
		if again {
			pause = min(2*old.pause, lastRetry)
		} else {
			fresh[owner] = problem
		}
		r[owner] = &refusal{problem: problem, pause: pause, next: now.Add(pause)}
	}
	return fresh
}

// blocked reports whether it is too early to retry a refused object.
func (r refusals) blocked(owner pipeline.Key, now time.Time) bool {
	old, ok := r[owner]
	return ok && now.Before(old.next)
}

// nextTry returns when the first object is to be tried again.
func (r refusals) nextTry() (when time.Time, ok bool) {
	for old := range maps.Values(r) {
		if !ok || old.next.Before(when) {
			when, ok = old.next, true
		}
	}
	return when, ok
}
