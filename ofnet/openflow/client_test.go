package openflow

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestClientConnectsAgainAndBacksOff(t *testing.T) {
	var connections atomic.Int32
	target := scripted(t, func(p *peer) {
		if n := connections.Add(1); n < 4 {
			return // hangs up on the first three
		}
		p.greet()
		p.obey(nil)
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var failures []int
	connected := 0
	client := &Client{
		Target:  target,
		Backoff: func(n int) time.Duration { failures = append(failures, n); return time.Millisecond },
		OnConnect: func(ctx context.Context, c *Conn) error {
			connected++
			if connected == 1 {
				return errors.New("not content")
			}
			if connected == 2 {
				c.fail(errors.New("cable cut"))
				<-ctx.Done() // ends with the connection
				return nil
			}
			cancel()
			return nil
		},
	}
	if err := client.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v after %d connections", err, connected)
	}
	// Three that hung up, one we did not like; then a good one starts anew.
	if want := []int{1, 2, 3, 4, 1}; !slices.Equal(failures, want) {
		t.Errorf("failures in a row: %v, want %v", failures, want)
	}
}

func TestClientStopsWhileNobodyIsThere(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client := &Client{
		Target:  "unix:/nonexistent/switch",
		Backoff: func(int) time.Duration { cancel(); return time.Hour },
	}
	if err := client.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBackoffIsBounded(t *testing.T) {
	c := &Client{}
	if first, last := c.backoff(1), c.backoff(1000); first != 100*time.Millisecond || last != 5*time.Second {
		t.Errorf("from %v to %v", first, last)
	}
}
