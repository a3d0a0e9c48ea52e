package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// listener is the result of scan for an open port.
type listener struct {
	Plain string `json:"plain"` // the beginning of the response to a request without TLS
	TLS   bool   `json:"tls"`
}

const (
	scanWait   = time.Second
	plainBytes = 512 // that are printed
)

// scan connects to every TCP port of an address and prints a JSON object: open port -> listener.
func scan(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("scan", flag.ContinueOnError)
	scanners := flags.Int("at-once", 256, "connections at once")
	wait := flags.Duration("wait", scanWait, "how long to wait for a connection")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("scan: want one address")
	}
	ports := make(chan int)
	open := map[int]listener{}
	var mu sync.Mutex
	var scanning sync.WaitGroup
	for range *scanners {
		scanning.Go(func() {
			for port := range ports {
				to := net.JoinHostPort(flags.Arg(0), strconv.Itoa(port))
				if !opens(ctx, to, *wait) {
					continue
				}
				found := listener{plainAnswer(ctx, to), speaksTLS(ctx, to)}
				mu.Lock()
				open[port] = found
				mu.Unlock()
			}
		})
	}
	for port := 1; port <= 65535 && ctx.Err() == nil; port++ {
		ports <- port
	}
	close(ports)
	scanning.Wait()
	return errors.Join(ctx.Err(), json.NewEncoder(os.Stdout).Encode(open))
}

func opens(ctx context.Context, to string, wait time.Duration) bool {
	dialer := net.Dialer{Timeout: wait}
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func plainAnswer(ctx context.Context, to string) string {
	dialer := net.Dialer{Timeout: scanWait}
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * scanWait)) // of a connection that is open
	if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.0\r\nHost: %s\r\n\r\n", to); err != nil {
		return ""
	}
	answer := make([]byte, 0, plainBytes)
	for len(answer) < plainBytes {
		n, err := conn.Read(answer[len(answer):plainBytes])
		answer = answer[:len(answer)+n]
		if err != nil {
			break
		}
	}
	return string(answer)
}

func speaksTLS(ctx context.Context, to string) bool {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 3 * scanWait}, Config: &tls.Config{InsecureSkipVerify: true}} // any certificate
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
