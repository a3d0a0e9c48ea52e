// Package testkit is what the tests of most packages need: waiting for a
// condition, an address that nobody uses, and a log that nobody reads.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// interval is the time between two tries.
const interval = 5 * time.Millisecond

// Poll tries until there is no error. When the context ends first it returns
// the context's error and the last one of a try that the context did not end.
func Poll(ctx context.Context, try func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error
	for {
		err := try()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// Until polls until a condition holds or the context ends.
func Until(ctx context.Context, what string, holds func() bool) error {
	return Poll(ctx, func() error {
		if !holds() {
			return errors.New(what)
		}
		return nil
	})
}

// Eventually polls a condition and fails the test if it does not hold in time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if Until(ctx, what, holds) != nil {
		t.Fatalf("not within %s: %s", within, what)
	}
}

// Quiet is a log for the complaints that a test provokes.
func Quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}
