package truth

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/test/k8s/netpol"
	"github.com/contiv/netplugin/test/testkit"
)

// probe is a connection from a pod to another. If it is allowed, the client's word returns; else nothing may
// arrive.
type probe struct {
	from, to int
	protocol string
	port     int
	v6       bool
	conn     net.Conn // nil: none yet
	old      bool     // it was begun before the last change
	tries    int      // to connect
	word     string
}

func (p *probe) String() string {
	return fmt.Sprintf("%d %d %s %d %t %t", p.from, p.to, p.protocol, p.port, p.v6, p.old)
}

// Times of an exchange.
const (
	exchangeLimit = 15 * time.Second       // until all that is allowed has come
	resend        = 200 * time.Millisecond // of unanswered words
	redial        = 2 * time.Second        // of a connection, whose first packet the kernel repeats after one
	quiet         = 30 * time.Millisecond  // in which denied packets would arrive, too
)

// fresh are probes of all pods to all others, but for themselves.
func (b *bed) fresh() (all []*probe) {
	for from := range b.ends {
		for to := range b.ends {
			for _, protocol := range netpol.Protocols {
				for _, port := range netpol.Ports {
					if from != to {
						all = append(all, &probe{from: from, to: to, protocol: protocol, port: port}, &probe{from: from, to: to, protocol: protocol, port: port, v6: true})
					}
				}
			}
		}
	}
	return all
}

// exchange has all pods try to reach each other, by new connections and by those of the exchange before it. It
// returns what is missing of the connections that policies allow, or else what has leaked of those that they deny.
func (b *bed) exchange(ctx context.Context) (missing, leaked error) {
	b.mu.Lock()
	b.arrived, b.answered = map[string]bool{}, map[string]bool{}
	b.mu.Unlock()
	probes := append(b.fresh(), b.kept...)
	trying, stop := context.WithTimeout(ctx, exchangeLimit)
	defer stop()
	var clients sync.WaitGroup
	var wanted, unwanted []*probe
	for i, p := range probes {
		p.word = fmt.Sprint(b.probed+i, " ", p)
		clients.Go(func() { b.try(trying, p) })
		pods := b.world.Pods
		if b.world.Allows(pods[p.from], pods[p.to], p.protocol, p.port, p.v6) {
			wanted = append(wanted, p)
		} else {
			unwanted = append(unwanted, p)
		}
	}
	defer func() {
		for _, p := range wanted {
			if p.tries > 1 {
				b.redialed++
			}
		}
	}()
	b.probed += len(probes)
	missing = testkit.Poll(trying, func() error { return b.check(wanted, true) })
	select {
	case <-time.After(quiet):
	case <-ctx.Done():
	}
	stop()
	clients.Wait()
	b.keep(probes)
	for _, e := range b.ends {
		e.hangUp()
	}
	if missing != nil {
		return missing, nil
	}
	return nil, b.check(unwanted, false)
}

// check returns the probes with a wrong result.
func (b *bed) check(probes []*probe, want bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var wrong []string
	for _, p := range probes {
		came := b.arrived[p.word]
		if want && p.protocol != "SCTP" {
			came = b.answered[p.word]
		}
		if came != want {
			from, to := b.world.Pods[p.from], b.world.Pods[p.to]
			wrong = append(wrong, fmt.Sprintf("%s/%s to %s/%s at %s, %s %d, begun before: %t", from.Namespace, from.Name, to.Namespace, to.Name, to.Address(p.v6), p.protocol, p.port, p.old))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	what := map[bool]string{true: "allowed, and did not arrive", false: "denied, and arrived"}[want]
	return fmt.Errorf("%s: %d of %d, such as\n%s", what, len(wrong), len(probes), strings.Join(wrong[:min(len(wrong), 8)], "\n"))
}

// keep has connections of TCP live until the next exchange, and those of UDP forever.
func (b *bed) keep(probes []*probe) {
	var kept, over []*probe
	for _, p := range probes {
		if p.conn != nil && (p.protocol == "TCP" && !p.old && b.answered[p.word] || p.protocol == "UDP" && (p.old || len(b.kept) == 0)) {
			kept = append(kept, p)
		} else {
			over = append(over, p)
		}
	}
	b.drop(over)
	for _, p := range kept {
		p.old = true
	}
	b.kept = kept
}

func (b *bed) drop(probes []*probe) {
	for _, p := range probes {
		if p.conn != nil {
			reset(p.conn)
		}
	}
}

// try sends the word until it returns.
func (b *bed) try(ctx context.Context, p *probe) {
	for p.conn == nil {
		if p.tries++; b.dial(ctx, p) == nil {
			break
		}
		select {
		case <-time.After(resend):
		case <-ctx.Done():
			return // it has not been reached
		}
	}
	word, buffer := []byte(p.word), make([]byte, 1500)
	switch p.protocol {
	case "TCP":
		word = append(word, '\n')
	case "SCTP":
		word = sctpPacket(p.port, word)
	}
	defer context.AfterFunc(ctx, func() { p.conn.SetReadDeadline(time.Now()) })()
	for first := true; ctx.Err() == nil; first = false {
		if first || p.protocol != "TCP" {
			p.conn.Write(word) // or it is not answered
		}
		p.conn.SetReadDeadline(time.Now().Add(resend))
		for {
			n, err := p.conn.Read(buffer)
			if err != nil {
				break
			}
			if p.protocol != "SCTP" && strings.TrimSpace(string(buffer[:n])) == p.word {
				b.mu.Lock()
				b.answered[p.word] = true
				b.mu.Unlock()
				return
			}
		}
	}
}

func (b *bed) dial(ctx context.Context, p *probe) error {
	e, to := b.ends[p.from], b.world.Pods[p.to].Address(p.v6)
	network, address := strings.ToLower(p.protocol), net.JoinHostPort(to.String(), fmt.Sprint(p.port))
	if p.protocol == "SCTP" {
		network, address = "ip:132", to.String()
	}
	ctx, cancel := context.WithTimeout(ctx, redial)
	defer cancel()
	return e.node.InNetns(e.netns, func() error {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			p.conn = conn
		}
		return err
	})
}

// sctpHeader is the length of the header of SCTP: ports, tag, checksum (RFC 9260, 3).
const sctpHeader = 12

// sctpPacket returns a packet for a port. Its chunk has no type, as servers ignore it.
func sctpPacket(port int, word []byte) []byte {
	p := make([]byte, sctpHeader, sctpHeader+len(word))
	binary.BigEndian.PutUint16(p, 40000)
	binary.BigEndian.PutUint16(p[2:], uint16(port))
	p = append(p, word...)
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	return p
}
