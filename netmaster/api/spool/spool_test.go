package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// lines writes an answer of a number of lines, which compress like those of a cluster.
func lines(n int) func(io.Writer) error {
	return func(out io.Writer) error {
		for i := range n {
			if _, err := fmt.Fprintf(out, "endpoint web.blue-%08x has the address 10.%d.%d.%d\n", uint32(i)*2654435761, i>>16, i>>8&255, i&255); err != nil {
				return err
			}
		}
		return nil
	}
}

// whole requires that nothing of the budget is taken.
func whole(t *testing.T, b *Budget, size int64) {
	t.Helper()
	if !b.rest.TryAcquire(size) {
		t.Error("the budget is not whole again")
		return
	}
	b.rest.Release(size)
}

func TestAnswersComeOutAsTheyWereWritten(t *testing.T) {
	const size = 8 << 20
	b := NewBudget(size, size)
	for _, n := range []int{0, 1, 700, 1000, 5000, 7000, 12000, 60000, 90000} {
		var want, got bytes.Buffer
		if err := lines(n)(&want); err != nil {
			t.Fatal(err)
		}
		answer, err := b.Write(t.Context(), "", nil, lines(n))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Size() != int64(want.Len()) || answer.packed != (want.Len() > moderate) {
			t.Errorf("%d lines: size %d, want %d; packed: %v", n, answer.Size(), want.Len(), answer.packed)
		}
		if sent, err := answer.WriteTo(&got); err != nil || sent != int64(want.Len()) || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d lines: %d bytes came out, %v", n, sent, err)
		}
		answer.Close()
		whole(t, b, size)
	}
}

// A single long answer is not compressed; concurrent ones are.
func TestOneLongAnswerIsKeptAsItIs(t *testing.T) {
	b := NewBudget(8<<20, 8<<20)
	for range 2 {
		var kept [2]*Answer
		for i := range kept {
			answer, err := b.Write(t.Context(), "", nil, lines(12000))
			if err != nil {
				t.Fatal(err)
			}
			kept[i] = answer
		}
		if kept[0].packed || !kept[1].packed {
			t.Errorf("compressed are the first %v, the second %v", kept[0].packed, kept[1].packed)
		}
		for _, answer := range kept {
			answer.Close()
		}
	}
	whole(t, b, 8<<20)
}

func TestWhatIsKeptIsBoundedAndGivenBack(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size, size)
	var kept []*Answer
	for {
		answer, err := b.Write(t.Context(), "", nil, lines(12000))
		if err != nil {
			if !fault.Is(err, fault.Unavailable) {
				t.Error(err)
			}
			break
		}
		kept = append(kept, answer)
	}
	if n := len(kept); n < 2 || n > 40 {
		t.Errorf("%d answers were kept", n)
	}
	if answer, err := b.Write(t.Context(), "", nil, lines(100)); err != nil {
		t.Errorf("a small answer: %v", err)
	} else {
		answer.Close()
	}
	// An answer that is being read releases the parts that have been read.
	if _, err := io.CopyN(io.Discard, kept[0], int64(kept[0].kept)-1); err != nil {
		t.Fatal(err)
	}
	if again, err := b.Write(t.Context(), "", nil, lines(12000)); err != nil {
		t.Errorf("after one answer was read: %v", err)
	} else {
		again.Close()
	}
	for _, answer := range kept {
		answer.Close()
	}
	whole(t, b, size)
}

func TestAnErrorLeavesNothingBehind(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size, size)
	failed := errors.New("no such object")
	for _, n := range []int{0, 1000, 12000} {
		_, err := b.Write(t.Context(), "", nil, func(out io.Writer) error { return errors.Join(lines(n)(out), failed) })
		if n < 12000 && !errors.Is(err, failed) || err == nil {
			t.Errorf("after %d lines: %v", n, err)
		}
		whole(t, b, size)
	}
}

// Few long answers are written at a time; waiting requests can be cancelled.
func TestAnswersThatAreLongTakeTurns(t *testing.T) {
	b := NewBudget(64<<20, 64<<20)
	var mu sync.Mutex
	writing, most, waits := 0, 0, 0
	release := make(chan struct{})
	long := func(out io.Writer) error {
		if _, isLimited := out.(limited); isLimited {
			mu.Lock()
			waits++
			mu.Unlock()
			return errLong
		}
		mu.Lock()
		writing++
		most = max(most, writing)
		mu.Unlock()
		<-release
		mu.Lock()
		writing--
		mu.Unlock()
		return lines(10)(out)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			answer, err := b.Write(context.Background(), "", nil, long)
			if err != nil {
				t.Error(err)
				return
			}
			answer.Close()
		})
	}
	testkit.Eventually(t, 10*time.Second, "they have got their turns", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return waits == 10 && writing == turns
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Write(ctx, "", nil, long); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "try again") {
		t.Errorf("who gave up: %v", err)
	}
	close(release)
	all.Wait()
	if most != turns {
		t.Errorf("%d were written at a time", most)
	}
}

// A long answer has a place until it is closed; a short one needs none.
func TestALongAnswerHasAPlaceUntilItIsRead(t *testing.T) {
	b := NewBudget(8<<20, 8<<20)
	taken := 0
	place := func() (func(), error) {
		if taken == 1 {
			return nil, fault.New(fault.Unavailable, "no place")
		}
		taken++
		return func() { taken-- }, nil
	}
	long, err := b.Write(t.Context(), "", place, lines(12000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(t.Context(), "", place, lines(12000)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a second one: %v", err)
	}
	short, err := b.Write(t.Context(), "", place, lines(100))
	if err != nil {
		t.Fatal(err)
	}
	short.Close()
	long.Close()
	long.Close()
	if taken != 0 {
		t.Errorf("%d places are taken", taken)
	}
	if _, err := b.Write(t.Context(), "", place, func(out io.Writer) error { return errors.Join(lines(12000)(out), io.ErrClosedPipe) }); !errors.Is(err, io.ErrClosedPipe) || taken != 0 {
		t.Errorf("one that fails: %v, %d places", err, taken)
	}
	whole(t, b, 8<<20)
}

// One client has its share, for all its answers together, and the others have the rest.
func TestAClientHasNoMoreThanItsShare(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size, size/4)
	fill := func(client string) (kept []*Answer) {
		for {
			answer, err := b.Write(t.Context(), client, nil, lines(2000))
			if err != nil {
				if !fault.Is(err, fault.Unavailable) {
					t.Error(err)
				}
				return kept
			}
			kept = append(kept, answer)
		}
	}
	ann := fill("ann")
	if held := b.of["ann"]; len(ann) == 0 || held > size/4 || held < size/8 {
		t.Errorf("ann has %d answers, which take %d bytes of %d", len(ann), held, size)
	}
	bob, nameless := fill("bob"), fill("")
	if len(bob) != len(ann) || len(nameless) <= len(ann) {
		t.Errorf("%d answers of ann, %d of bob, %d of who has no name", len(ann), len(bob), len(nameless))
	}
	_, err := b.Write(t.Context(), "ann", nil, lines(2000))
	if err == nil || !strings.Contains(err.Error(), "ann has long answers of 262144 bytes") {
		t.Errorf("ann is told %v", err)
	}
	if _, err := ann[0].WriteTo(io.Discard); err != nil { // it is released when it is read
		t.Error(err)
	}
	ann = append(ann, fill("ann")...)
	if len(ann) != len(bob)+1 {
		t.Errorf("%d answers of ann when one was read, before %d", len(ann), len(bob))
	}
	for _, kept := range [][]*Answer{ann, bob, nameless} {
		for _, answer := range kept {
			answer.Close()
		}
	}
	whole(t, b, size)
	if len(b.of) != 0 {
		t.Errorf("taken by clients: %v", b.of)
	}
	// The only answer may be longer than a share. Parts packed meanwhile are released, too.
	const large = 64 << 20
	b = NewBudget(large, piece)
	packed, err := b.Write(t.Context(), "ann", nil, lines(90000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(t.Context(), "ann", nil, lines(2000)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("another answer beside one that is longer than a share: %v", err)
	}
	if held := b.of["ann"]; !packed.packed || held != packed.held || held > int64(packed.kept) {
		t.Errorf("a packed answer of %d bytes counts as %d, packed: %t", packed.kept, held, packed.packed)
	}
	if _, err := packed.WriteTo(io.Discard); err != nil {
		t.Error(err)
	}
	packed.Close()
	whole(t, b, large)
	if len(b.of) != 0 {
		t.Errorf("taken by clients: %v", b.of)
	}
}
