package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"
)

// streamReport is the output of stream.
type streamReport struct {
	Sent     int       `json:"sent"`
	Received int       `json:"received"`
	Lost     int       `json:"lost"`
	MaxGap   float64   `json:"maxGapMs"` // longest time between two replies
	Losses   []loss    `json:"losses"`   // the first ones
	LastLost time.Time `json:"lastLost"` // when the last datagram without a reply was sent
	GapAt    time.Time `json:"gapAt"`    // start of that gap
	Late     int       `json:"late"`     // datagrams that were not sent, as the machine was too busy
	Refused  string    `json:"refused"`  // why one could not be sent, which ended the stream
}

// loss is a range of datagrams without a reply.
type loss struct {
	At    time.Time `json:"at"` // when the first of them was sent
	Count int       `json:"count"`
}

// maxLosses limits how many losses are listed.
const maxLosses = 20

// maxDatagrams limits a stream: an hour at one per millisecond.
const maxDatagrams = 3_600_000

// stream sends numbered datagrams to an echo server at a constant rate, until it is stopped or all are sent, and
// counts those without a reply. It fails if any is lost. With -tcp, the numbers are sent over one connection.
func stream(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	to := flags.String("to", "", "address:port of a UDP echo server")
	count := flags.Int("count", 5000, "datagrams to send")
	interval := flags.Duration("interval", time.Millisecond, "time between two datagrams")
	grace := flags.Duration("grace", 5*time.Second, "how long to wait for the last answers")
	fresh := flags.Bool("fresh", false, "send each datagram from a port of its own, as the first of its flow")
	tcp := flags.Bool("tcp", false, "send numbers over a TCP connection, to a server of -echo")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *count < 1 || *count > maxDatagrams {
		return fmt.Errorf("stream: count %d: want 1 to %d", *count, maxDatagrams)
	}
	answered := newAnswers(*count)
	var s sender
	var err error
	switch {
	case *fresh:
		s = &freshFlows{to: *to, grace: *grace, answers: answered}
	case *tcp:
		s, err = startConnection(*to, answered)
	default:
		s, err = startFlow(*to, answered)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "stream: sending to", *to)

	tick := time.NewTicker(*interval)
	defer tick.Stop()
	var sent []time.Time
	var refused error
	for len(sent) < *count && ctx.Err() == nil {
		<-tick.C
		if err := s.send(len(sent)); err != nil {
			refused = err
			break
		}
		sent = append(sent, time.Now())
	}
	for last := time.Now().Add(*grace); answered.count() < len(sent) && time.Now().Before(last); {
		<-tick.C
	}
	s.end()
	report := answered.report(sent)
	report.Late = late(sent, *interval)
	if refused != nil {
		report.Refused = refused.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	if report.Lost != 0 || len(sent) < *count && ctx.Err() == nil {
		return errors.Join(errors.New("stream: datagrams were lost"), refused)
	}
	return nil
}

// late returns how many more datagrams a constant rate would have sent.
func late(sent []time.Time, interval time.Duration) int {
	if len(sent) == 0 {
		return 0
	}
	return max(0, int(sent[len(sent)-1].Sub(sent[0])/interval)-len(sent)+1)
}

// sender sends datagrams and records their replies.
type sender interface {
	send(number int) error
	end() // returns when nothing is recorded any more
}

// oneFlow sends all datagrams from one port, or all numbers over one connection.
type oneFlow struct {
	conn     net.Conn
	received chan struct{} // closed when the reader has ended
}

func startFlow(to string, a *answers) (*oneFlow, error) {
	conn, err := net.Dial("udp", to)
	if err != nil {
		return nil, err
	}
	if err := makeRoom(conn.(*net.UDPConn)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	f := &oneFlow{conn, make(chan struct{})}
	go func() {
		defer close(f.received)
		for ended := false; !ended; {
			_, ended = a.readFrom(conn)
		}
	}()
	return f, nil
}

func (f *oneFlow) send(number int) error {
	_, err := f.conn.Write(numbered(number))
	return err
}

func (f *oneFlow) end() {
	f.conn.Close()
	<-f.received
}
