// Package testkit is what the tests of most packages need: waiting for a
// condition, an address that nobody uses, and a log that nobody reads.
package testkit

import (
	"context"
	"fmt"
	"io"
	"net"
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

// Eventually polls a condition and fails the test if it does not hold in time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
}

// FreeAddress is a host:port of the loopback that nobody listens on. Somebody
// else may take it before it is used.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// FreeURL is the http URL of a free address.
func FreeURL(t testing.TB) string {
	t.Helper()
	return "http://" + FreeAddress(t)
}

// Quiet is a log for the complaints that a test provokes.
func Quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}
