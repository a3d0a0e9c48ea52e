package ovsd

import (
	"context"
	"maps"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// flowSwitch is what the programmer needs of an OpenFlow connection.
type flowSwitch interface {
	// Bundle applies all messages in one step, or none.
	Bundle(ctx context.Context, messages ...openflow.Message) error
	// Barrier returns when everything before it has taken effect.
	Barrier(ctx context.Context) error
	Flows(ctx context.Context, filter openflow.FlowFilter) ([]openflow.FlowStats, error)
	Done() <-chan struct{}
	Close()
}

// switchTime is how long the switch may take to answer.
const switchTime = 15 * time.Second

// outcome of an installation.
type outcome struct {
	done    []step
	refused map[pipeline.Key]error
}

// install writes the steps as one bundle. If the switch refuses it, the bundle
// is halved until those objects are alone that are to blame; a good object
// never waits for a bad one. An error means that the switch did not answer.
func install(ctx context.Context, sw flowSwitch, steps []step) (outcome, error) {
	result := outcome{refused: map[pipeline.Key]error{}}
	if len(steps) == 0 {
		return result, nil
	}
	if err := installGroups(ctx, sw, byOwner(steps), &result); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return result, sw.Barrier(ctx)
}

func installGroups(ctx context.Context, sw flowSwitch, groups [][]step, result *outcome) error {
	var steps []step
	var messages []openflow.Message
	for _, group := range groups {
		steps = append(steps, group...)
		for _, s := range group {
			messages = append(messages, s.message())
		}
	}
	bundleCtx, cancel := context.WithTimeout(ctx, switchTime)
	err := sw.Bundle(bundleCtx, messages...)
	late := bundleCtx.Err()
	cancel()
	switch {
	case err == nil:
		result.done = append(result.done, steps...)
		return nil
	case late != nil || ended(sw):
		return fault.New(fault.Unavailable, "flows are not in the switch: %w", err)
	case len(groups) == 1:
		result.refused[steps[0].owner] = err
		return nil
	}
	half := len(groups) / 2
	if err := installGroups(ctx, sw, groups[:half], result); err != nil {
		return err
	}
	return installGroups(ctx, sw, groups[half:], result)
}

// byOwner groups the steps of an object, in the order of its first.
func byOwner(steps []step) [][]step {
	var groups [][]step
	place := map[pipeline.Key]int{}
	for _, s := range steps {
		i, ok := place[s.owner]
		if !ok {
			i = len(groups)
			place[s.owner] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

func ended(sw flowSwitch) bool {
	select {
	case <-sw.Done():
		return true
	default:
		return false
	}
}

// Pauses before a refused object is tried again.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// refusals are the objects that the switch did not take.
type refusals map[pipeline.Key]*refusal

type refusal struct {
	err   error
	pause time.Duration
	next  time.Time
}

// note enters the outcome of an installation and returns the objects that were
// refused for the first time.
func (r refusals) note(result outcome, now time.Time) (fresh map[pipeline.Key]error) {
	fresh = map[pipeline.Key]error{}
	for _, s := range result.done {
		delete(r, s.owner)
	}
	for owner, err := range result.refused {
		old, again := r[owner]
		pause := firstRetry
		if again {
			pause = min(2*old.pause, lastRetry)
		} else {
			fresh[owner] = err
		}
		r[owner] = &refusal{err: err, pause: pause, next: now.Add(pause)}
	}
	return fresh
}

// blocked tells whether it is too early to try an object again.
func (r refusals) blocked(owner pipeline.Key, now time.Time) bool {
	old, ok := r[owner]
	return ok && now.Before(old.next)
}

// next returns when the first object is to be tried again.
func (r refusals) nextTry() (when time.Time, ok bool) {
	for old := range maps.Values(r) {
		if !ok || old.next.Before(when) {
			when, ok = old.next, true
		}
	}
	return when, ok
}
