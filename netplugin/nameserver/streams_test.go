package nameserver

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// held is a name server whose names below slow.example. have no answer before they are released.
type held struct {
	asked   atomic.Int32 // for those
	release func()
}

// startHeld starts one, our server that forwards to it, and a connection to ours.
func startHeld(t *testing.T) (*held, *dns.Conn) {
	t.Helper()
	h, released := &held{}, make(chan struct{})
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if strings.HasSuffix(m.Question[0].Name, ".slow.example.") {
			h.asked.Add(1)
			<-released
		}
		tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
	})))
	f.patience = time.Minute
	_, server := start(t, exampleZones(t), f, inBlue)
	h.release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(h.release)
	conn, err := dns.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // may be closed
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return h, conn
}

// asks sends questions, with their places in the list as numbers.
func asks(t *testing.T, conn *dns.Conn, names ...string) {
	t.Helper()
	for i, name := range names {
		m := question(name, dns.TypeA)
		m.Id = uint16(i)
		if err := conn.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
}

// hears reads so many answers, and returns the ids of their questions.
func hears(t *testing.T, conn *dns.Conn, count int) (numbers []int) {
	t.Helper()
	for range count {
		reply, err := conn.ReadMsg()
		if err != nil || reply.Rcode != dns.RcodeSuccess || len(reply.Answer) == 0 {
			t.Fatalf("after the answers %v: %v, %v", numbers, reply, err)
		}
		numbers = append(numbers, int(reply.Id))
	}
	return numbers
}

func slowNames(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("n%d.slow.example.", i))
	}
	return names
}

// A question with a slow answer holds up no other one behind it on its connection (RFC 7766, section 6.2.1.1).
func TestASlowQuestionHoldsUpNoneOfItsConnection(t *testing.T) {
	t.Parallel()
	h, conn := startHeld(t)
	asks(t, conn, "n.slow.example.", "front.", "fast.example.")
	if got := hears(t, conn, 2); !slices.Contains(got, 1) || !slices.Contains(got, 2) {
		t.Errorf("answered first: %v", got)
	}
	h.release()
	if got := hears(t, conn, 1); got[0] != 0 {
		t.Errorf("answered at last: %v", got)
	}
}

// The questions of one connection that are forwarded at once are limited; those beyond wait, and are answered.
func TestAConnectionHasSoManyQuestionsUnderWay(t *testing.T) {
	t.Parallel()
	h, conn := startHeld(t)
	const beyond = 5
	asks(t, conn, slowNames(maxAtOnce+beyond)...)
	testkit.Eventually(t, 10*time.Second, "as many are asked for as may be", func() bool { return h.asked.Load() == maxAtOnce })
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.ReadMsg(); err == nil || h.asked.Load() != maxAtOnce {
		t.Errorf("%d are asked for, want %d; answered: %v", h.asked.Load(), maxAtOnce, reply)
	}
	h.release()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := hears(t, conn, maxAtOnce+beyond)
	slices.Sort(got)
	if len(slices.Compact(got)) != maxAtOnce+beyond {
		t.Errorf("answered: %v", got)
	}
}

// A client that has closed its side, or has reached the limit of questions, gets all answers before the connection
// ends.
func TestAConnectionEndsWithItsLastAnswer(t *testing.T) {
	t.Parallel()
	for what, names := range map[string][]string{
		"ended by the asker": slowNames(2),
		"asked all he may":   append(slices.Repeat([]string{"front."}, maxOnConnection-1), "n.slow.example."),
	} {
		h, conn := startHeld(t)
		asks(t, conn, names...)
		if len(names) < maxOnConnection {
			if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, 10*time.Second, what+": all are asked for", func() bool { return h.asked.Load() == int32(len(slowOf(names))) })
		h.release()
		hears(t, conn, len(names))
		if reply, err := conn.ReadMsg(); err == nil || errors.Is(err, dns.ErrShortRead) || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: %v, %v, want the end", what, reply, err)
		}
	}
}

func slowOf(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "front." })
}
