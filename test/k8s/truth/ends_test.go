package truth

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/contiv/netplugin/test/k8s/netpol"
	"github.com/contiv/netplugin/test/testbed"
)

// end is a pod's network, and the servers in it.
type end struct {
	node    *testbed.Node
	netns   string // path on the node
	sockets []io.Closer
	serving sync.WaitGroup

	mu       sync.Mutex
	accepted []net.Conn // in this exchange
	before   []net.Conn // in the last one
}

// serve opens the ports. Servers note each word that arrives, and send it back; SCTP, which the
// kernel may not have, is seen as packets, and not answered.
func (b *bed) serve(e *end) error {
	return e.node.InNetns(e.netns, func() error {
		for _, port := range netpol.Ports {
			listener, err := net.Listen("tcp", fmt.Sprint(":", port))
			if err != nil {
				return err
			}
			e.sockets = append(e.sockets, listener)
			e.serving.Go(func() { b.serveTCP(e, listener) })
			datagrams, err := net.ListenPacket("udp", fmt.Sprint(":", port))
			if err != nil {
				return err
			}
			e.sockets = append(e.sockets, datagrams)
			e.serving.Go(func() { b.serveUDP(datagrams) })
		}
		for _, network := range []string{"ip4:132", "ip6:132"} {
			packets, err := net.ListenIP(network, nil)
			if err != nil {
				return err
			}
			e.sockets = append(e.sockets, packets)
			e.serving.Go(func() { b.seeSCTP(packets) })
		}
		return nil
	})
}

func (b *bed) serveTCP(e *end, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		e.mu.Lock()
		e.accepted = append(e.accepted, conn)
		e.mu.Unlock()
		e.serving.Go(func() {
			defer conn.Close()
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				b.note(lines.Text())
				fmt.Fprintln(conn, lines.Text()) // a client that has gone is its own problem
			}
		})
	}
}

func (b *bed) serveUDP(packets net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := packets.ReadFrom(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			b.note(string(buffer[:n]))
			packets.WriteTo(buffer[:n], from) // or it is lost, like any datagram
		}
	}
}

func (b *bed) seeSCTP(packets *net.IPConn) {
	buffer := make([]byte, 1500)
	for {
		n, _, err := packets.ReadFromIP(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil && n > sctpHeader:
			b.note(string(buffer[sctpHeader:n]))
		}
	}
}

// note records that a word has arrived.
func (b *bed) note(word string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived[word] = true
}

// hangUp ends the connections that have lived through an exchange. A policy may keep the end of the
// client's side from the server.
func (e *end) hangUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, conn := range e.before {
		reset(conn)
	}
	e.before, e.accepted = e.accepted, nil
}

// reset ends a connection without waiting for its other end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // it is closed next, whatever
	}
	conn.Close()
}

func (e *end) close() error {
	var errs []error
	for _, s := range e.sockets {
		errs = append(errs, s.Close())
	}
	e.hangUp()
	e.hangUp()
	e.serving.Wait()
	return errors.Join(errs...)
}
