package openflow

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
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
	const first = time.Millisecond
	told := &waits{}
	connected := 0
	client := &Client{
		Target:      target,
		Options:     Options{Log: told.log()},
		FirstRedial: first,
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
	// Three connections were closed early, one was refused; then a good one resets the waits.
	if len(told.list) != 5 {
		t.Fatalf("waits: %v, want 5 of them", told.list)
	}
	for i, most := range []time.Duration{first, 2 * first, 4 * first, 8 * first, first} {
		if wait := told.list[i]; wait > most || wait < most/2 {
			t.Errorf("wait %d is %v, want %v to %v", i, wait, most/2, most)
		}
	}
}

// waits are those in a client's log.
type waits struct {
	list []time.Duration
	then func() // after each one; nil: nothing
}

func (w *waits) log() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.SetLevel(logrus.DebugLevel) // equal lines are logged once in a while only
	log.AddHook(w)
	return log.WithField("component", "test")
}

// Levels implements logrus.Hook.
func (w *waits) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (w *waits) Fire(e *logrus.Entry) error {
	if wait, ok := e.Data["retry"].(time.Duration); ok {
		w.list = append(w.list, wait)
		if w.then != nil {
			w.then()
		}
	}
	return nil
}

func TestClientStopsWhileNobodyIsThere(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	told := &waits{then: cancel}
	client := &Client{
		Target:      "unix:/nonexistent/switch",
		Options:     Options{Log: told.log()},
		FirstRedial: time.Hour,
		LastRedial:  time.Hour,
	}
	if err := client.Run(ctx); !errors.Is(err, context.Canceled) || len(told.list) != 1 {
		t.Errorf("got %v after waits %v", err, told.list)
	}
}
