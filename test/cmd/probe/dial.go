package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialReport is the output of dial.
type dialReport struct {
	Connections int64   `json:"connections"`
	Failed      int64   `json:"failed"`
	Seconds     float64 `json:"seconds"`
	LastError   string  `json:"lastError"`
}

// maxDialing limits how long dial runs.
const maxDialing = time.Minute

// dial connects repeatedly, from several clients at once, to a server that sends its name and closes, and counts
// the successes.
func dial(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dial", flag.ContinueOnError)
	to := flags.String("to", "", "address:port")
	from := flags.String("from", "", "address to connect from, one that this host has (default: as it chooses)")
	clients := flags.Int("clients", 8, "connections at once")
	limit := flags.Duration("for", 2*time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *clients < 1 || *clients > 100 || *limit > maxDialing {
		return fmt.Errorf("dial: %d clients for %s: want 1 to 100, %s at most", *clients, *limit, maxDialing)
	}
	var dialer net.Dialer
	if *from != "" {
		address, err := netip.ParseAddr(*from)
		if err != nil {
			return fmt.Errorf("dial: -from: %w", err)
		}
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0))
		dialer.Control = chooseLate
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	var done, failed atomic.Int64
	var last atomic.Value // error
	var group sync.WaitGroup
	began := time.Now()
	for range *clients {
		group.Go(func() {
			for time.Since(began) < *limit && ctx.Err() == nil {
				if err := dialOnce(ctx, &dialer, *to); err == nil {
					done.Add(1)
				} else if time.Since(began) < *limit { // the context may end later
					failed.Add(1)
					last.Store(err.Error())
				}
			}
		})
	}
	group.Wait()
	return json.NewEncoder(os.Stdout).Encode(dialReport{done.Load(), failed.Load(), time.Since(began).Seconds(), fmt.Sprint(last.Load())})
}

// chooseLate makes the kernel choose a connection's port at connect, as without an explicit address, and not when
// the address is bound, where a port serves one connection only.
func chooseLate(_, _ string, conn syscall.RawConn) error {
	var problem error
	err := conn.Control(func(fd uintptr) {
		problem = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return errors.Join(err, problem)
}

func dialOnce(ctx context.Context, dialer *net.Dialer, to string) error {
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}
