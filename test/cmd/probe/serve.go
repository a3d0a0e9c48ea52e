package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Datagrams that are not echoed: one, possibly followed by zeros, is answered with the name and as many bytes, the
// other is printed to the output, and not answered.
const (
	whoAreYou = "who?"
	forged    = "forged"
)

// serve sends its name to TCP and UDP clients, and echoes other datagrams, and connections to ports of their own,
// on any address. The name shows which of several pods with the same address has answered. It prints "serving"
// when all ports are open.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := flags.String("name", "ok", "what to say")
	tcp := flags.String("tcp", "", "ports, comma separated")
	udp := flags.String("udp", "", "ports, comma separated")
	sctp := flags.String("sctp", "", "ports, comma separated; only who asks is answered")
	echo := flags.String("echo", "", "TCP ports whose connections are echoed, comma separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var serving []func(context.Context) error
	var sockets []io.Closer
	for _, port := range ports(*tcp) {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		sockets = append(sockets, l)
		serving = append(serving, func(context.Context) error { return serveTCP(l, *name) })
	}
	for _, port := range ports(*echo) {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		sockets = append(sockets, l)
		serving = append(serving, func(ctx context.Context) error { return echoTCP(ctx, l) })
	}
	for _, port := range ports(*udp) {
		conn, err := net.ListenPacket("udp", ":"+port)
		if err != nil {
			return err
		}
		sockets = append(sockets, conn)
		if err := makeRoom(conn.(*net.UDPConn)); err != nil {
			return err
		}
		serving = append(serving, func(context.Context) error { return serveUDP(conn, *name) })
	}
	for _, port := range ports(*sctp) {
		conns, err := listenSCTP()
		if err != nil {
			return err
		}
		for _, conn := range conns {
			sockets = append(sockets, conn)
			serving = append(serving, func(context.Context) error { return serveSCTP(conn, port, *name) })
		}
	}
	fmt.Println("serving") // testbed.Pod.Serve waits for it
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() {
		for _, s := range sockets {
			s.Close()
		}
	})()
	for _, f := range serving {
		g.Go(func() error { return f(ctx) })
	}
	return g.Wait()
}

// ports returns the elements of a comma-separated list, which may be empty.
func ports(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func serveTCP(l net.Listener, name string) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		io.WriteString(conn, name) // errors are the client's
		conn.Close()
	}
}

// maxDatagram is more than a UDP datagram can have.
const maxDatagram = 1 << 16

func serveUDP(conn net.PacketConn, name string) error {
	buf := make([]byte, maxDatagram)
	for {
		n, peer, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		answer := buf[:n]
		switch string(bytes.TrimRight(answer, "\x00")) {
		case whoAreYou:
			answer = []byte(name)
			if n > len(whoAreYou) {
				answer = padded(name, n)
			}
		case forged:
			fmt.Println(forged, "datagram from", peer)
			continue
		}
		if _, err := conn.WriteTo(answer, peer); err != nil {
			return err
		}
	}
}
