// Package testkit has what the tests of most packages need: waiting for a condition, a free address, a discarded
// log, and the distinction between tests that run anywhere and tests that need a machine.
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

// The time between two attempts is as long as an attempt takes, but within these limits: so attempts that start
// processes leave half of a processor to what they wait for.
const (
	interval    = 5 * time.Millisecond
	maxInterval = 100 * time.Millisecond
)

// NeedsMachine must be called by helpers of tests that need root or an installed package: Open vSwitch, etcd, a
// namespace. With "go test -short", which is "make unit", the test is skipped.
func NeedsMachine(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs root and installed packages")
	}
}

// TakesLong marks a test of minutes, whose name begins with TestLong. It runs only by "make e2e-long" or, if it is
// about Kubernetes, by "make e2e-k8s-long".
func TakesLong(t testing.TB) {
	t.Helper()
	if os.Getenv("CONTIV_TEST_LONG") == "" {
		t.Skip("takes long; make e2e-long runs it, or make e2e-k8s-long")
	}
}

// Poll calls try until it returns no error. When the context ends first it returns the context's error and the
// last error of a try that was not caused by that.
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

// Quiet returns a log that discards the messages that a test provokes.
func Quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}
