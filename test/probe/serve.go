package main

import (
	"context"
	"flag"
	"io"
	"net"
	"strings"

	"golang.org/x/sync/errgroup"
)

// serve accepts and closes TCP connections, and echoes datagrams, on any address.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	tcp := flags.String("tcp", "", "ports, comma separated")
	udp := flags.String("udp", "", "ports, comma separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for port := range strings.SplitSeq(*tcp, ",") {
		if port != "" {
			g.Go(func() error { return serveTCP(ctx, port) })
		}
	}
	for port := range strings.SplitSeq(*udp, ",") {
		if port != "" {
			g.Go(func() error { return serveUDP(ctx, port) })
		}
	}
	return g.Wait()
}

func serveTCP(ctx context.Context, port string) error {
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
		io.WriteString(conn, "ok\n")
		conn.Close()
	}
}

func serveUDP(ctx context.Context, port string) error {
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
		if _, err := conn.WriteTo(buf[:n], peer); err != nil {
			return err
		}
	}
}
