// Probe runs the servers and clients of tests inside pods and nodes. Every subcommand is limited in count and
// time, prints one JSON document or line, and exits 0 only on success.
//
//	probe http URL                     GET, print the body, succeed on 200
//	probe serve -tcp 80,8080 -udp 7    answer on ports until killed
//	probe reach -ping A,B -tcp A:80,.. which of these answer, as JSON; also -udp; -packet 1500: packet size
//	probe dial -to A:80 -for 2s        as many connections as possible, counted
//	probe scan A                       every open TCP port, and its banner, as JSON
//	probe stream -to A:7 -count 5000   one datagram per interval, count losses; -tcp: over a connection
//	probe watch -to A:7                a line whenever replies stop or resume
//	probe flood -to A:9 -rate 60000    datagrams at a rate, in kbit/s
//	probe storm -kind arp -to A        as many packets of a kind as possible, counted
//	probe marks -dev eth0 -port 7      the DSCPs of datagrams on a link, as JSON
//	probe resolve -server A NAME       the records of names, as JSON
//	probe questions -server A NAME     DNS queries as fast as they are answered
//	probe resolver -listen A:53 N=A    a name server with the given names
//	probe forge -eth-src M -ip-src A   frames with any source
//	probe keys URL                     the keys of an etcd and a digest of each value
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var commands = map[string]func(ctx context.Context, args []string) error{
	"dial":      dial,
	"http":      get,
	"serve":     serve,
	"reach":     reach,
	"scan":      scan,
	"stream":    stream,
	"watch":     watch,
	"flood":     flood,
	"storm":     storm,
	"marks":     marks,
	"resolve":   resolve,
	"questions": questions,
	"resolver":  resolver,
	"forge":     forge,
	"keys":      keys,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: probe dial|http|serve|reach|scan|stream|watch|flood|storm|marks|resolve|questions|resolver|forge|keys ...; see the head of its source")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}
