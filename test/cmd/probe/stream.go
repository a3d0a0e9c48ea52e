package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// streamReport is what stream prints.
type streamReport struct {
	Sent     int     `json:"sent"`
	Received int     `json:"received"`
	Lost     int     `json:"lost"`
	MaxGap   float64 `json:"maxGapMs"` // longest time between two answers
	Losses   []loss  `json:"losses"`   // the first ones
}

// loss is a row of datagrams that were not answered.
type loss struct {
	At    time.Time `json:"at"` // when the first of them was sent
	Count int       `json:"count"`
}

// maxLosses bounds the losses that are told one by one.
const maxLosses = 20

// maxDatagrams bounds a stream: ten minutes at one per millisecond.
const maxDatagrams = 600_000

// stream sends numbered datagrams to an echo server at a steady pace, until it
// is told to stop or all are sent, and counts those that never come back. It
// fails if any is lost.
func stream(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	to := flags.String("to", "", "address:port of a UDP echo server")
	count := flags.Int("count", 5000, "datagrams to send")
	interval := flags.Duration("interval", time.Millisecond, "time between two datagrams")
	grace := flags.Duration("grace", 5*time.Second, "how long to wait for the last answers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *count < 1 || *count > maxDatagrams {
		return fmt.Errorf("stream: count %d: want 1 to %d", *count, maxDatagrams)
	}
	conn, err := net.Dial("udp", *to)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintln(os.Stderr, "stream: sending to", *to)
	seen := make([]bool, *count) // the receiver's until it has reported
	received := make(chan streamReport, 1)
	var answers atomic.Int64
	go func() { received <- receive(conn, seen, &answers) }()

	tick := time.NewTicker(*interval)
	defer tick.Stop()
	var packet [8]byte
	var sent []time.Time
	var refused error
	for len(sent) < *count && ctx.Err() == nil {
		<-tick.C
		binary.BigEndian.PutUint64(packet[:], uint64(len(sent)))
		if _, err := conn.Write(packet[:]); err != nil {
			refused = err // and lost, as those that are not sent then
			break
		}
		sent = append(sent, time.Now())
	}
	for last := time.Now().Add(*grace); answers.Load() < int64(len(sent)) && time.Now().Before(last); {
		<-tick.C
	}
	if err := conn.SetReadDeadline(time.Now()); err != nil {
		return err
	}
	report := <-received
	report.Sent, report.Lost, report.Losses = len(sent), len(sent)-report.Received, losses(sent, seen)
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	if report.Lost != 0 || len(sent) < *count && ctx.Err() == nil {
		return errors.Join(errors.New("stream: datagrams were lost"), refused)
	}
	return nil
}

// losses are the rows of datagrams that were sent and not answered.
func losses(sent []time.Time, answered []bool) (rows []loss) {
	for i, at := range sent {
		switch {
		case answered[i]:
		case i > 0 && !answered[i-1]:
			rows[len(rows)-1].Count++
		case len(rows) == maxLosses:
			return rows
		default:
			rows = append(rows, loss{at, 1})
		}
	}
	return rows
}

// receive notes distinct answers, and counts them for others to see, until all have
// come or the read deadline ends it.
func receive(conn net.Conn, seen []bool, answers *atomic.Int64) (r streamReport) {
	var packet [16]byte
	last := time.Now()
	for r.Received < len(seen) {
		n, err := conn.Read(packet[:])
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
				return r
			}
			continue // an ICMP error reported on the socket; later answers still count
		}
		number := binary.BigEndian.Uint64(packet[:8])
		if n != 8 || number >= uint64(len(seen)) || seen[number] {
			continue
		}
		seen[number] = true
		r.Received++
		answers.Add(1)
		r.MaxGap = max(r.MaxGap, float64(time.Since(last).Microseconds())/1000)
		last = time.Now()
	}
	return r
}
