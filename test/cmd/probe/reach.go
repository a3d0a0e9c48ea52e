package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// reach asks many targets at once and prints a JSON object: target -> answer,
// empty when there was none. A ping is one echo request of ping(8), its answer
// "pong"; a TCP or UDP target answers with the name it says.
func reach(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("reach", flag.ContinueOnError)
	pings := flags.String("ping", "", "addresses, comma separated")
	tcp := flags.String("tcp", "", "address:port, comma separated")
	udp := flags.String("udp", "", "address:port, comma separated")
	wait := flags.Duration("wait", time.Second, "how long to wait for each answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *wait)
	defer cancel()
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		answers = map[string]string{}
	)
	ask := func(targets string, question func(context.Context, string) string) {
		for target := range strings.SplitSeq(targets, ",") {
			if target == "" {
				continue
			}
			wg.Go(func() {
				answer := question(ctx, target)
				mu.Lock()
				defer mu.Unlock()
				answers[target] = answer
			})
		}
	}
	ask(*pings, ping)
	ask(*tcp, connect)
	ask(*udp, datagram)
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func ping(ctx context.Context, address string) string {
	if exec.CommandContext(ctx, "ping", "-c1", "-n", "-q", address).Run() != nil {
		return ""
	}
	return "pong"
}

func connect(ctx context.Context, target string) string {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return ""
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetReadDeadline(deadline) != nil {
		return ""
	}
	name, err := io.ReadAll(io.LimitReader(conn, 64))
	if err != nil {
		return ""
	}
	return string(name)
}

// datagram asks once: a lost question is an answer, too.
func datagram(ctx context.Context, target string) string {
	conn, err := net.Dial("udp", target)
	if err != nil {
		return ""
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetDeadline(deadline) != nil {
		return ""
	}
	if _, err := io.WriteString(conn, whoAreYou); err != nil {
		return ""
	}
	var name [64]byte
	n, err := conn.Read(name[:])
	if err != nil {
		return ""
	}
	return string(name[:n])
}
