package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reach contacts many targets at once and prints a JSON object: target -> answer, empty if there was none. A ping
// is one echo request of ping(8), with the answer "pong"; a TCP, UDP or SCTP target answers with its name. With
// -refusals the answer of a port that refuses is "refused".
func reach(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("reach", flag.ContinueOnError)
	pings := flags.String("ping", "", "addresses, comma separated")
	tcp := flags.String("tcp", "", "address:port, comma separated")
	udp := flags.String("udp", "", "address:port, comma separated")
	sctp := flags.String("sctp", "", "address:port, comma separated")
	wait := flags.Duration("wait", time.Second, "how long to wait for each answer")
	refusals := flags.Bool("refusals", false, "tell who refuses from who is silent")
	apart := flags.Duration("apart", 0, "time between the beginnings of two questions; large ones at once are more than a busy switch takes")
	var size sized
	flags.IntVar(&size.bytes, "packet", 0, "bytes of the IP packets of pings and datagrams; 0: as few as there can be")
	flags.BoolVar(&size.whole, "whole", false, "these must not be fragmented")
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
	ask := func(targets string, question func(context.Context, string) (string, error)) {
		for target := range strings.SplitSeq(targets, ",") {
			if target == "" {
				continue
			}
			pace(ctx, *apart)
			wg.Go(func() {
				answer, err := question(ctx, target)
				if err != nil {
					answer = ""
				}
				if *refusals && errors.Is(err, unix.ECONNREFUSED) {
					answer = refused
				}
				mu.Lock()
				defer mu.Unlock()
				answers[target] = answer
			})
		}
	}
	ask(*pings, size.ping)
	ask(*tcp, connect)
	ask(*udp, size.datagram)
	ask(*sctp, new(associations).ask)
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// refused is the answer of a port that refuses.
const refused = "refused"

func connect(ctx context.Context, target string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(deadline); err != nil {
		return "", err
	}
	name, err := io.ReadAll(io.LimitReader(conn, 64))
	return string(name), err
}
