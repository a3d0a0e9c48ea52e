package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// connecting is how long a connection may take to be there.
const connecting = 5 * time.Second

// startConnection is a flow whose numbers are in one TCP connection. Its end is the end of the flow.
func startConnection(to string, a *answers) (*oneFlow, error) {
	conn, err := net.DialTimeout("tcp", to, connecting)
	if err != nil {
		return nil, err
	}
	f := &oneFlow{conn, make(chan struct{})}
	go func() {
		defer close(f.received)
		number := make([]byte, 8)
		for {
			if _, err := io.ReadFull(conn, number); err != nil {
				return // who sends is told, too
			}
			a.note(binary.BigEndian.Uint64(number))
		}
	}()
	return f, nil
}

// echoTCP sends back what comes in connections, until the context or the listener ends.
func echoTCP(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		open.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			io.Copy(conn, conn) // how a connection ends, its client tells
		})
	}
}
