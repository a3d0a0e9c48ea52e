package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"time"
)

// longestFlood limits the duration of one run.
const longestFlood = time.Minute

// flood sends datagrams at a rate, whether or not they are received, until it is stopped or its time is over.
func flood(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("flood", flag.ContinueOnError)
	to := flags.String("to", "", "address:port of a UDP port")
	size := flags.Int("size", 1400, "bytes in a datagram")
	rate := flags.Int("rate", 60_000, "kbit/s of datagrams, without their headers")
	limit := flags.Duration("for", 10*time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *size < 1 || *size > 9000 || *rate < 1 || *limit > longestFlood {
		return errors.New("flood: want a size of 1 to 9000, a rate, and at most a minute")
	}
	conn, err := net.Dial("udp", *to)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	datagram, began, sent := make([]byte, *size), time.Now(), 0
	for ctx.Err() == nil {
		<-tick.C
		for due := int(time.Since(began).Seconds() * float64(*rate) * 1000 / 8); sent < due; sent += *size {
			_, _ = conn.Write(datagram) // a receiver is not required
		}
	}
	fmt.Println(sent)
	return nil
}
