package uplink

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Former undoes what an agent with uplinks has left, on a node that has none any more: after the next boot the
// links would be unusable for the host, because Open vSwitch has them as ports and no agent moves the
// addresses. The bridge of the pods stays, in case the uplinks return.
type Former struct {
	config Config
	beside []func(context.Context) error

	mu      sync.Mutex
	problem string
}

// NewFormer returns a Former. It uses the fields of config that Undo uses. beside undoes other things
// that came with the uplinks.
func NewFormer(config Config, beside ...func(context.Context) error) *Former {
	if config.Log == nil {
		config.Log = logrus.WithField("component", "uplink")
	}
	return &Former{config: config, beside: beside}
}

// Run undoes it once the switch can be reached, and returns when ctx is done.
func (f *Former) Run(ctx context.Context) error {
	for {
		err := Undo(ctx, f.config)
		for _, undo := range f.beside {
			err = errors.Join(err, undo(ctx))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.note(err)
		var again <-chan time.Time
		if err != nil {
			again = time.After(pause)
		}
		select {
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// note stores an error for Problem, and logs it when it changes.
func (f *Former) note(err error) {
	text := ""
	if err != nil {
		text = "uplinks that the node had: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	f.mu.Lock()
	fresh := text != f.problem
	f.problem = text
	f.mu.Unlock()
	if fresh && err != nil {
		f.config.Log.Warn(text)
	}
}

// Problem returns why something is left, "" if nothing is known to be.
func (f *Former) Problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}
