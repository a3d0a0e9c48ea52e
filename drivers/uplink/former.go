package uplink

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Former undoes what an agent has left that had uplinks, on a node that has none any more:
// the links would be dead for the host after the next boot, when Open vSwitch has them as
// ports and nobody moves its addresses. The bridge of the pods stays, for the case that the
// uplinks come back.
type Former struct {
	config Config
	beside []func(context.Context) error

	mu      sync.Mutex
	problem string
}

// NewFormer makes one. Of the configuration matters what matters to Undo. What came with the uplinks is undone beside them.
func NewFormer(config Config, beside ...func(context.Context) error) *Former {
	if config.Log == nil {
		config.Log = logrus.WithField("component", "uplink")
	}
	return &Former{config: config, beside: beside}
}

// Run undoes it, when the switch can be reached, and returns when ctx is done.
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

// Problem says why something is left, "" if nobody knows of anything.
func (f *Former) Problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}
