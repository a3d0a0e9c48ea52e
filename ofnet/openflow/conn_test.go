package openflow

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

func TestHelloDecidesOnTheVersion(t *testing.T) {
	bitmap := func(header byte, versions uint32) []byte {
		b, err := Encode(1, Hello{Versions: versions})
		if err != nil {
			t.Fatal(err)
		}
		b[0] = header
		return b
	}
	for _, c := range []struct {
		about string
		hello []byte
		want  string // part of the error; "" if we agree
	}{
		{"exactly 1.3", bitmap(4, 1<<4), ""},
		{"a newer switch that speaks 1.3 too", bitmap(6, 1<<4|1<<5|1<<6), ""},
		{"a newer switch without a bitmap", []byte{6, 0, 0, 8, 0, 0, 0, 1}, ""},
		{"a newer switch that does not speak 1.3", bitmap(6, 1<<5|1<<6), "not OpenFlow 1.3"},
		{"an old switch", []byte{1, 0, 0, 8, 0, 0, 0, 1}, "not OpenFlow 1.3"},
		{"not a hello", []byte{4, 2, 0, 8, 0, 0, 0, 1}, "instead of a hello"},
		{"not OpenFlow", []byte("HTTP/1.1 200 OK\r\n\r\n"), "no hello"},
		{"too short a length", []byte{4, 0, 0, 7, 0, 0, 0, 1}, "length of 7"},
	} {
		t.Run(c.about, func(t *testing.T) {
			target := scripted(t, func(p *peer) {
				p.raw(c.hello)
				p.next()
				if xid, m := p.next(); m != nil {
					p.send(xid, Features{DatapathID: 7})
				}
			})
			conn, err := Dial(deadline(t, patience), target, Options{})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if conn.Features().DatapathID != 7 {
					t.Errorf("features: %v", conn.Features())
				}
				conn.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDialGivesUpOnASwitchThatSaysNothing(t *testing.T) {
	target := scripted(t, func(p *peer) {
		for _, m := p.next(); m != nil; _, m = p.next() {
		}
	})
	_, err := Dial(deadline(t, 50*time.Millisecond), target, Options{})
	if !errors.Is(err, context.DeadlineExceeded) || !fault.Is(err, fault.Unavailable) {
		t.Fatalf("got %v", err)
	}
}

func TestDialRefusesWhatIsNoTarget(t *testing.T) {
	for _, target := range []string{"", "br0", "udp:127.0.0.1:1", "unix:", "tcp"} {
		if _, err := Dial(t.Context(), target, Options{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", target, err)
		}
	}
	if _, err := Dial(t.Context(), "unix:/nonexistent", Options{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a socket that is not there: %v", err)
	}
}

func TestEchoIsAnsweredWithItsIDAndData(t *testing.T) {
	got := make(chan EchoReply, 1)
	target := scripted(t, func(p *peer) {
		p.greet()
		p.send(0xabcd, EchoRequest{[]byte("payload")})
		p.obey(func(xid uint32, m Message) bool {
			if reply, ok := m.(EchoReply); ok && xid == 0xabcd {
				got <- reply
			}
			return false
		})
	})
	dialPeer(t, target, Options{})
	select {
	case reply := <-got:
		if !bytes.Equal(reply.Data, []byte("payload")) {
			t.Errorf("data: %q", reply.Data)
		}
	case <-time.After(patience):
		t.Fatal("no answer")
	}
}

func TestASwitchThatIsNotThereAnyMoreIsNoticed(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(_ uint32, m Message) bool { _, isEcho := m.(EchoRequest); return isEcho })
	})
	c := dialPeer(t, target, Options{EchoInterval: 10 * time.Millisecond, EchoTimeout: 20 * time.Millisecond})
	if err := mustEnd(t, c); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "echo") {
		t.Errorf("got %v", err)
	}
	if err := c.Barrier(t.Context()); err == nil {
		t.Error("a dead connection can be used")
	}
}

func TestAnEchoKeepsAnIdleConnection(t *testing.T) {
	echoes := make(chan struct{}, 100)
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(_ uint32, m Message) bool {
			if _, isEcho := m.(EchoRequest); isEcho {
				echoes <- struct{}{}
			}
			return false
		})
	})
	c := dialPeer(t, target, Options{EchoInterval: 5 * time.Millisecond, EchoTimeout: patience})
	for range 3 {
		select {
		case <-echoes:
		case <-c.Done():
			t.Fatal(c.Err())
		}
	}
	mustWork(t, c)
}

func TestARequestThatIsNotAnsweredEndsWithItsContext(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(_ uint32, m Message) bool { _, isList := m.(multipartRequest); return isList })
	})
	c := dialPeer(t, target, Options{})
	if _, err := c.Flows(deadline(t, 20*time.Millisecond), FlowFilter{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	mustWork(t, c)
}

func TestASwitchThatTakesNothingDoesNotHoldUs(t *testing.T) {
	release := make(chan struct{})
	target := scripted(t, func(p *peer) {
		p.greet()
		<-release
	})
	c := dialPeer(t, target, Options{WriteTimeout: 50 * time.Millisecond})
	defer close(release)
	big := make([]Message, 0, 1000)
	for range cap(big) {
		big = append(big, PacketOut{Data: make([]byte, 10000)})
	}
	if err := c.Send(deadline(t, patience), big...); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if err := mustEnd(t, c); !strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v", err)
	}
}

func TestACutOffOrSenselessMessageEndsTheConnection(t *testing.T) {
	for about, garbage := range map[string][]byte{
		"cut off":       {4, 10, 0, 100, 0, 0, 0, 1, 0, 0},
		"wrong length":  {4, 21, 0, 3, 0, 0, 0, 1},
		"wrong version": {1, 21, 0, 8, 0, 0, 0, 1},
		"not OpenFlow":  []byte("GET / HTTP/1.1\r\nHost: switch\r\n\r\n"),
	} {
		t.Run(about, func(t *testing.T) {
			target := scripted(t, func(p *peer) {
				p.greet()
				p.next()
				p.raw(garbage)
			})
			c := dialPeer(t, target, Options{})
			if err := c.Barrier(deadline(t, patience)); !fault.Is(err, fault.Unavailable) {
				t.Errorf("the waiting request: %v", err)
			}
			mustEnd(t, c)
		})
	}
}

func TestMessagesThatCannotBeUnderstoodAreIgnored(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.raw([]byte{4, 99, 0, 8, 0, 0, 0, 9})              // a type that does not exist
		p.raw([]byte{4, 10, 0, 12, 0, 0, 0, 0, 1, 2, 3, 4}) // a packet-in of four bytes
		p.send(12345, BarrierReply{})                       // an answer to nothing
		p.send(12345, &Error{Type: 1, Code: 1})
		p.obey(nil)
	})
	mustWork(t, dialPeer(t, target, Options{}))
}

func TestAnswersThatCannotBeUnderstoodAreTheRequestsError(t *testing.T) {
	for _, c := range []struct {
		about string
		reply multipartReply
		want  string
	}{
		{"entry too long", multipartReply{kind: partFlow, body: []byte{0xff, 0xff, 0, 0}}, "65535"},
		{"entry too short", multipartReply{kind: partFlow, body: []byte{0, 1, 0, 0}}, "claims 1 bytes"},
		{"half an entry", multipartReply{kind: partFlow, body: []byte{0}}, "1 bytes of an element"},
		{"other kind", multipartReply{kind: partGroup}, "answers flow request with group statistics reply"},
	} {
		t.Run(c.about, func(t *testing.T) {
			target := scripted(t, func(p *peer) {
				p.greet()
				p.obey(func(xid uint32, m Message) bool {
					if _, ok := m.(multipartRequest); ok {
						p.send(xid, c.reply)
					}
					return false
				})
			})
			conn := dialPeer(t, target, Options{})
			if _, err := conn.Flows(deadline(t, patience), FlowFilter{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			mustWork(t, conn)
		})
	}
}

func TestAnAnswerOfManyPartsIsPutTogether(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(xid uint32, m Message) bool {
			if _, ok := m.(multipartRequest); ok {
				for i := range 3 {
					e := &encoder{}
					e.port(Port{No: uint32(i + 1), Name: "p"})
					p.send(xid, multipartReply{kind: partPortDesc, more: i < 2, body: e.b})
				}
			}
			return false
		})
	})
	ports, err := dialPeer(t, target, Options{}).PortDesc(deadline(t, patience))
	if err != nil || len(ports) != 3 || ports[2] != (Port{No: 3, Name: "p"}) {
		t.Errorf("got %v, %v", ports, err)
	}
}

func TestAnAnswerWithoutEndIsBounded(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(xid uint32, m Message) bool {
			if _, ok := m.(multipartRequest); ok {
				for range 100 {
					p.send(xid, multipartReply{kind: partPortDesc, more: true, body: make([]byte, portSize*100)})
				}
			}
			return false
		})
	})
	c := dialPeer(t, target, Options{MaxReply: 100_000})
	if _, err := c.PortDesc(deadline(t, patience)); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v", err)
	}
	mustWork(t, c)
}

func TestEventsFasterThanTheyAreTakenDoNotStopAnswers(t *testing.T) {
	const flood = 3 * eventQueue
	release := make(chan struct{})
	target := scripted(t, func(p *peer) {
		p.greet()
		for range flood {
			p.send(0, PacketIn{Match: Match{InPort(1)}})
		}
		p.obey(nil)
	})
	c := dialPeer(t, target, Options{OnEvent: func(Message) { <-release }})
	mustWork(t, c)
	if dropped := c.Dropped(); dropped < flood-eventQueue-1 || dropped > flood-eventQueue {
		t.Errorf("%d of %d were dropped", dropped, flood)
	}
	close(release)
}
