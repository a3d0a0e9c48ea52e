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
	"time"
)

// streamReport is what stream prints.
type streamReport struct {
	Sent     int     `json:"sent"`
	Received int     `json:"received"`
	Lost     int     `json:"lost"`
	MaxGap   float64 `json:"maxGapMs"` // longest time between two answers
}

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
	grace := flags.Duration("grace", 2*time.Second, "how long to wait for the last answers")
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
	received := make(chan streamReport, 1)
	go func() { received <- receive(conn, *count) }()

	tick := time.NewTicker(*interval)
	defer tick.Stop()
	var packet [8]byte
	sent := 0
	for ; sent < *count && ctx.Err() == nil; sent++ {
		<-tick.C
		binary.BigEndian.PutUint64(packet[:], uint64(sent))
		if _, err := conn.Write(packet[:]); err != nil {
			break // a refused datagram is a lost one
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(*grace)); err != nil {
		return err
	}
	report := <-received
	report.Sent, report.Lost = sent, sent-report.Received
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	if report.Lost != 0 || sent < *count && ctx.Err() == nil {
		return errors.New("stream: datagrams were lost")
	}
	return nil
}

// receive counts distinct answers until all have come or the read deadline ends it.
func receive(conn net.Conn, count int) (r streamReport) {
	seen := make([]bool, count)
	var packet [16]byte
	last := time.Now()
	for r.Received < count {
		n, err := conn.Read(packet[:])
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
				return r
			}
			continue // an ICMP error reported on the socket; later answers still count
		}
		number := binary.BigEndian.Uint64(packet[:8])
		if n != 8 || number >= uint64(count) || seen[number] {
			continue
		}
		seen[number] = true
		r.Received++
		r.MaxGap = max(r.MaxGap, float64(time.Since(last).Microseconds())/1000)
		last = time.Now()
	}
	return r
}
