package pipeline

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mailbox sends frames and compares those that arrive at all wires with the expected ones.
type mailbox struct {
	wires   []*wire
	letters map[string]*letter // by id
	late    map[string]bool    // ids of earlier worlds, which may still arrive: a switch keeps fragments for a while
	open    int                // arrivals to wait for
	sent    int
}

// letter is a frame on its way.
type letter struct {
	probe probeFrame
	fate
	may map[int][]byte // may also arrive at these
	at  []int          // where it has arrived
}

var letterID = regexp.MustCompile(`<\d+\.\d+>`)

// exchange sends frames and reads what arrives. It returns where each one, or its first fragment, has arrived, in
// the order of the frames.
func (m *mailbox) exchange(t *testing.T, w *world, probes []probeFrame) (arrived [][]int) {
	t.Helper()
	var firsts []*letter
	since := 0
	for _, p := range probes {
		m.sent++
		for part, frame := range p.frames() {
			id := fmt.Sprintf("<%d.%d>", m.sent, part)
			frame := append(frame, id...)
			l := &letter{probe: p, fate: w.fate(p, frame)}
			if part == 0 {
				firsts = append(firsts, l)
			} else { // useless without the first one
				l.may = w.without(p, frame).anywhere()
			}
			m.letters[id] = l
			m.open += l.missing()
			m.wires[p.from].send(frame)
			since++
		}
		if since >= 15 { // the sockets on the path have room for these
			m.read(t, soon)
			since = 0
		}
		if t.Failed() {
			break // each missing frame costs a wait
		}
	}
	m.read(t, soon)
	for _, l := range firsts {
		arrived = append(arrived, l.at)
	}
	return arrived
}

// forget drops the letters of an earlier world.
func (m *mailbox) forget() {
	for id, l := range m.letters {
		if len(l.may) > 0 || l.none {
			m.late[id] = true
		}
	}
	m.letters = map[string]*letter{}
}

// anywhere returns all places at which a frame may arrive.
func (f fate) anywhere() map[int][]byte {
	all := maps.Clone(f.must)
	maps.Copy(all, f.oneOf)
	return all
}

// missing returns how many arrivals of a letter are still due.
func (l *letter) missing() (count int) {
	if len(l.oneOf) > 0 && !l.none && len(l.at) == 0 {
		count++
	}
	for wire := range l.must {
		if !slices.Contains(l.at, wire) {
			count++
		}
	}
	return count
}

// read reads until all expected frames have arrived, or the time limit is over.
func (m *mailbox) read(t *testing.T, limit time.Duration) {
	t.Helper()
	buffer := make([]byte, 2048)
	fds := make([]unix.PollFd, len(m.wires))
	for deadline := time.Now().Add(limit); (m.open > 0 || limit < soon) && time.Now().Before(deadline); {
		for i, w := range m.wires {
			fds[i] = unix.PollFd{Fd: int32(w.fd), Events: unix.POLLIN}
		}
		if _, err := unix.Poll(fds, 20); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		for i, fd := range fds {
			if fd.Revents != 0 {
				m.take(t, i, buffer)
			}
		}
	}
	if m.open > 0 {
		for id, l := range m.letters {
			if l.missing() > 0 {
				t.Errorf("missing: %s: %s", id, l)
			}
		}
		m.open = 0
	}
}

func (l *letter) String() string {
	return fmt.Sprintf("%s; to %v or one of %v; arrived at %v", l.probe, wiresOf(l.must), wiresOf(l.oneOf), l.at)
}

func wiresOf(frames map[int][]byte) (all []int) {
	for wire := range frames {
		all = append(all, wire)
	}
	slices.Sort(all)
	return all
}

func (m *mailbox) take(t *testing.T, number int, buffer []byte) {
	t.Helper()
	n, from, err := unix.Recvfrom(m.wires[number].fd, buffer, unix.MSG_DONTWAIT)
	if link, ok := from.(*unix.SockaddrLinklayer); err != nil || !ok || link.Pkttype == unix.PACKET_OUTGOING ||
		link.Pkttype == unix.PACKET_OTHERHOST && number >= borders {
		return
	}
	got, id := buffer[:n], string(letterID.Find(buffer[:n]))
	l := m.letters[id]
	if l == nil && m.late[id] {
		return
	}
	if l == nil {
		t.Errorf("too much at %d: %x", number, got)
		return
	}
	want, due := l.must[number], true
	if want == nil && len(l.at) == 0 {
		want, due = l.oneOf[number], !l.none
	}
	if want == nil {
		want, due = l.may[number], false
	}
	switch {
	case want == nil || slices.Contains(l.at, number):
		t.Errorf("too much: %s at %d: %s: %x", id, number, l, got)
		return
	case !bytes.Equal(got, want):
		t.Errorf("changed: %s at %d: %s:\n%x\nwant:\n%x", id, number, l, got, want)
	}
	if l.at = append(l.at, number); due {
		m.open--
	}
}
