package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Datagrams that are not echoed: one is answered with the name, one is noted
// down for whoever reads our output, and not answered.
const (
	whoAreYou = "who?"
	forged    = "forged"
)

// serve says its name to whoever connects or asks, and echoes other datagrams,
// on any address. The name tells which of several pods with the same address
// has answered.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := flags.String("name", "ok", "what to say")
	tcp := flags.String("tcp", "", "ports, comma separated")
	udp := flags.String("udp", "", "ports, comma separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for port := range strings.SplitSeq(*tcp, ",") {
		if port != "" {
			g.Go(func() error { return serveTCP(ctx, port, *name) })
		}
	}
	for port := range strings.SplitSeq(*udp, ",") {
		if port != "" {
			g.Go(func() error { return serveUDP(ctx, port, *name) })
		}
	}
	return g.Wait()
}

func serveTCP(ctx context.Context, port, name string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		io.WriteString(conn, name) // a client that has gone is its own problem
		conn.Close()
	}
}

func serveUDP(ctx context.Context, port, name string) error {
	conn, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, 2048)
	for {
		n, peer, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		answer := buf[:n]
		switch string(answer) {
		case whoAreYou:
			answer = []byte(name)
		case forged:
			fmt.Println(forged, "datagram from", peer)
			continue
		}
		if _, err := conn.WriteTo(answer, peer); err != nil {
			return err
		}
	}
}
