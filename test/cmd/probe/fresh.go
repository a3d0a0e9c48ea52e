package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// maxWaiting limits how many fresh flows wait for their reply: each has an open socket.
const maxWaiting = 10_000

// freshFlows sends each datagram from a port of its own.
type freshFlows struct {
	to      string
	grace   time.Duration // how long a reply may take
	answers *answers

	waiting sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]struct{}
}

func (f *freshFlows) send(number int) error {
	conn, err := net.Dial("udp", f.to)
	if err != nil {
		return err
	}
	if err := f.keep(conn); err != nil {
		conn.Close()
		return err
	}
	f.waiting.Go(func() {
		defer f.forget(conn)
		for answered, ended := false, false; !answered && !ended; {
			answered, ended = f.answers.readFrom(conn)
		}
	})
	_, err = conn.Write(numbered(number))
	return err
}

func (f *freshFlows) keep(conn net.Conn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[net.Conn]struct{}{}
	}
	if len(f.open) == maxWaiting {
		return fmt.Errorf("stream: %d flows wait for an answer", maxWaiting)
	}
	f.open[conn] = struct{}{}
	return conn.SetReadDeadline(time.Now().Add(f.grace))
}

func (f *freshFlows) forget(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
	conn.Close()
}

func (f *freshFlows) end() {
	f.mu.Lock()
	for conn := range f.open {
		conn.Close()
	}
	f.mu.Unlock()
	f.waiting.Wait()
}
