package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// connecting is how long the setup of a connection may take.
const connecting = 5 * time.Second

// startConnection returns a flow whose numbers are sent over one TCP connection. It ends with the connection.
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
				return // the sender gets an error, too
			}
			a.note(binary.BigEndian.Uint64(number))
		}
	}()
	return f, nil
}

// echoTCP echoes the data of connections until the context or the listener ends.
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
			io.Copy(conn, conn) // the client reports how a connection ends
		})
	}
}
