package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// resolve queries names and prints the results: the data of the records in order, or the response code if it is an
// error.
func resolve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("resolve", flag.ContinueOnError)
	server := flags.String("server", "", "address of the name server")
	transport := flags.String("net", "udp", "udp or tcp")
	size := flags.Uint("size", 0, "bytes that an answer may have, by EDNS; 0: without")
	kind := flags.String("type", "A", "type of the records")
	wait := flags.Duration("wait", 2*time.Second, "how long to wait for an answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if dns.StringToType[*kind] == 0 || flags.NArg() == 0 {
		return errors.New("resolve: want a type and names")
	}
	client := dns.Client{Net: *transport, Timeout: *wait, UDPSize: uint16(max(*size, dns.MinMsgSize))}
	told := map[string]string{}
	for _, name := range flags.Args() {
		m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[*kind])
		if *size > 0 {
			m.SetEdns0(uint16(*size), false)
		}
		reply, _, err := client.ExchangeContext(ctx, m, net.JoinHostPort(*server, "53"))
		told[name] = describeReply(reply, err)
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

func describeReply(reply *dns.Msg, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case reply.Rcode != dns.RcodeSuccess:
		return dns.RcodeToString[reply.Rcode]
	}
	var data []string
	for _, r := range reply.Answer {
		data = append(data, strings.TrimPrefix(r.String(), r.Header().String()))
	}
	slices.Sort(data)
	if reply.Truncated {
		data = append(data, "truncated")
	}
	return strings.Join(data, " ")
}

// longestAsking limits one run.
const longestAsking = time.Minute

// asking has the results of many queries.
type asking struct {
	Sent      int64   `json:"sent"`
	Answered  int64   `json:"answered"`
	Seconds   float64 `json:"seconds"`
	LongestMS float64 `json:"longestMs"` // until a reply
}

// questions sends DNS queries over UDP, sequentially on several sockets, and prints how many were answered.
func questions(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("questions", flag.ContinueOnError)
	server := flags.String("server", "", "address of the name server")
	workers := flags.Int("workers", 1, "how many ask at the same time")
	limit := flags.Duration("for", time.Second, "how long")
	pause := flags.Duration("pause", 0, "between an answer and the next question")
	flood := flags.Int("flood", 0, "questions per second of a worker that waits for no answer; 0: wait")
	wait := flags.Duration("wait", time.Second, "how long to wait for an answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *workers < 1 || *workers > 256 || *limit > longestAsking || flags.NArg() == 0 {
		return errors.New("questions: want 1 to 256 workers, at most a minute, and names")
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	var sent, answered, longest atomic.Int64
	began, group := time.Now(), errgroup.Group{}
	for worker := range *workers {
		group.Go(func() error {
			conn, err := net.Dial("udp", net.JoinHostPort(*server, "53"))
			if err != nil {
				return err
			}
			defer conn.Close()
			buffer := make([]byte, dns.MaxMsgSize)
			for i, first := worker, time.Now(); ctx.Err() == nil; i++ {
				if due := int(time.Since(first).Seconds() * float64(*flood)); *flood > 0 && i-worker >= due {
					pace(ctx, time.Millisecond)
					i--
					continue
				}
				m := new(dns.Msg).SetQuestion(dns.Fqdn(flags.Arg(i%flags.NArg())), dns.TypeA)
				data, err := m.Pack()
				if err != nil {
					return err
				}
				asked := time.Now()
				_, err = conn.Write(data)
				sent.Add(1)
				if *flood > 0 {
					continue // a server is not required
				}
				if err == nil {
					err = errors.Join(conn.SetReadDeadline(asked.Add(*wait)), awaitAnswer(conn, buffer, data))
				}
				if err == nil {
					answered.Add(1)
					for took, old := int64(time.Since(asked)), longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
					}
				}
				pace(ctx, *pause)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(asking{sent.Load(), answered.Load(), time.Since(began).Seconds(), time.Duration(longest.Load()).Seconds() * 1000})
}

// awaitAnswer reads until the reply to a query has arrived.
func awaitAnswer(conn net.Conn, buffer, question []byte) error {
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		if n >= 2 && buffer[0] == question[0] && buffer[1] == question[1] {
			return nil
		}
	}
}

// resolver is a name server for names=addresses, until it is stopped; other names do not exist.
func resolver(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("resolver", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:53", "address:port, UDP")
	if err := flags.Parse(args); err != nil {
		return err
	}
	known := map[string]string{}
	for _, text := range flags.Args() {
		name, address, _ := strings.Cut(text, "=")
		known[dns.Fqdn(name)] = address
	}
	server := &dns.Server{Addr: *listen, Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		reply := new(dns.Msg).SetRcode(m, dns.RcodeNameError)
		if a := net.ParseIP(known[m.Question[0].Name]); a != nil && m.Question[0].Qtype == dns.TypeA {
			reply.Rcode = dns.RcodeSuccess
			reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: a}}
		}
		_ = w.WriteMsg(reply) // the client may have gone
	})}
	stop := context.AfterFunc(ctx, func() { _ = server.Shutdown() }) // it ends anyway
	defer stop()
	return server.ListenAndServe()
}

// pace waits until the time of the next query, or until the end.
func pace(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}
