package main

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// numbered returns a datagram with its number in the stream.
func numbered(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// answers are the replies to a stream, on any number of connections.
type answers struct {
	mu       sync.Mutex
	seen     []bool // by number
	received int    // distinct ones
	last     time.Time
	maxGap   time.Duration
	gapAt    time.Time
}

func newAnswers(most int) *answers { return &answers{seen: make([]bool, most), last: time.Now()} }

// readFrom waits for a reply and records it. ended reports that there will be no more: the connection is closed,
// or its deadline over. An ICMP error, or a datagram that is not a reply, is neither.
func (a *answers) readFrom(conn net.Conn) (answered, ended bool) {
	var packet [16]byte
	n, err := conn.Read(packet[:])
	switch {
	case errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded):
		return false, true
	case err != nil || n != 8:
		return false, false
	}
	return a.note(binary.BigEndian.Uint64(packet[:8])), false
}

func (a *answers) note(number uint64) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if number >= uint64(len(a.seen)) || a.seen[number] {
		return false
	}
	now := time.Now()
	a.seen[number] = true
	a.received++
	if gap := now.Sub(a.last); gap > a.maxGap {
		a.maxGap, a.gapAt = gap, a.last
	}
	a.last = now
	return true
}

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.received
}

// report returns the fate of the datagrams, given when each was sent.
func (a *answers) report(sent []time.Time) streamReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := streamReport{Sent: len(sent), Received: a.received, Lost: len(sent) - a.received, MaxGap: float64(a.maxGap.Microseconds()) / 1000, GapAt: a.gapAt}
	rows := 0
	for i, at := range sent {
		if a.seen[i] {
			continue
		}
		begins := i == 0 || a.seen[i-1]
		if begins {
			rows++
		}
		switch {
		case rows > maxLosses:
		case begins:
			r.Losses = append(r.Losses, loss{at, 1})
		default:
			r.Losses[rows-1].Count++
		}
		r.LastLost = at
	}
	return r
}
