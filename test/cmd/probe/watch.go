package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"net"
	"os"
	"time"
)

// transition is a line of watch: from a datagram on, replies arrived or did not.
type transition struct {
	At       int64 `json:"at"` // when that datagram was sent, Unix nanoseconds
	Answered bool  `json:"answered"`
}

// unanswered is how long a reply may take before its datagram counts as lost.
const unanswered = 100 * time.Millisecond

// watch sends a datagram per interval to an echo server and prints a line each time replies stop or resume. It
// ends after the given duration.
func watch(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	to := flags.String("to", "", "address:port of a UDP echo server")
	interval := flags.Duration("interval", time.Millisecond, "time between two datagrams")
	limit := flags.Duration("for", time.Minute, "when to stop")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, min(*limit, 10*time.Minute))
	defer cancel()
	conn, err := net.Dial("udp", *to)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := make(chan uint64, 1024)
	received := make(chan struct{})
	go func() {
		defer close(received)
		readAnswers(ctx, conn, answers)
	}()
	defer func() { cancel(); conn.Close(); <-received }()

	w := watcher{out: json.NewEncoder(os.Stdout)}
	tick := time.NewTicker(*interval)
	defer tick.Stop()
	var packet [8]byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case number := <-answers:
			err = w.answered(number)
		case <-tick.C:
			binary.BigEndian.PutUint64(packet[:], uint64(len(w.sent)))
			w.sent = append(w.sent, time.Now())
			conn.Write(packet[:]) // a refused datagram is a lost one
			err = w.expire(time.Now())
		}
		if err != nil {
			return err
		}
	}
}

// watcher has the time of each datagram and the last printed line.
type watcher struct {
	out    *json.Encoder
	sent   []time.Time
	oldest int // first datagram with an undecided fate
	up     bool
}

// answered settles all datagrams up to the number: replies stay in order.
func (w *watcher) answered(number uint64) error {
	if number >= uint64(len(w.sent)) || int(number) < w.oldest {
		return nil
	}
	first := int(number)
	w.oldest = first + 1
	return w.say(first, true)
}

// expire settles datagrams that have waited long enough.
func (w *watcher) expire(now time.Time) error {
	for w.oldest < len(w.sent) && now.Sub(w.sent[w.oldest]) > unanswered {
		if err := w.say(w.oldest, false); err != nil {
			return err
		}
		w.oldest++
	}
	return nil
}

func (w *watcher) say(number int, up bool) error {
	if up == w.up {
		return nil
	}
	w.up = up
	return w.out.Encode(transition{At: w.sent[number].UnixNano(), Answered: up})
}

func readAnswers(ctx context.Context, conn net.Conn, answers chan<- uint64) {
	var packet [16]byte
	for ctx.Err() == nil {
		if n, err := conn.Read(packet[:]); err != nil || n != 8 {
			continue // refused ports are reported here; at the end ctx ends first
		}
		select {
		case answers <- binary.BigEndian.Uint64(packet[:8]):
		case <-ctx.Done():
		}
	}
}
