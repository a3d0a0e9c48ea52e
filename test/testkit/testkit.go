// Package testkit is what the tests of most packages need: waiting for a
// condition, an address that nobody uses, a log that nobody reads, and the
// border between tests that run anywhere and tests that need a machine.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// The time between two tries is as long as a try takes, but within these: so tries that start
// processes leave half of a processor to what they wait for.
const (
	interval    = 5 * time.Millisecond
	maxInterval = 100 * time.Millisecond
)

// NeedsMachine is called by what a test starts that takes root or an installed
// package: Open vSwitch, etcd, a namespace. With "go test -short", which is
// "make unit", the test is skipped.
func NeedsMachine(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs root and installed packages")
	}
}

// TakesLong begins a test of minutes, whose name begins with TestLong. It runs
// by "make e2e-long" only, or, of Kubernetes, by "make e2e-k8s-long".
func TakesLong(t testing.TB) {
	t.Helper()
	if os.Getenv("CONTIV_TEST_LONG") == "" {
		t.Skip("takes long; make e2e-long runs it, or make e2e-k8s-long")
	}
}

// Poll tries until there is no error. When the context ends first it returns
// the context's error and the last one of a try that the context did not end.
func Poll(ctx context.Context, try func() error) error {
	var last error
	for {
		began := time.Now()
		err := try()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(min(max(interval, time.Since(began)), maxInterval)):
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
