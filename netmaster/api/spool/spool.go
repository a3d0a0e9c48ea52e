// Package spool keeps answers from the moment they are complete until their
// clients have taken them.
//
// An answer is written as a whole before its first byte is sent: the state that it was
// read from is released at once, however slowly the client reads, and an error in
// the middle is still an error to the client. Memory is bounded:
//
//   - A short answer is kept as it is.
//   - A longer one is written again, by at most a few requests at a time. A request that
//     waits for its turn holds no memory meanwhile.
//   - It is kept compressed: the answer of a large cluster takes a tenth of its size, but
//     more time than to write it. An answer that is not very long is kept as it is while no
//     other one is.
//   - All answers together take no more than a budget, and those of one client no more than
//     a part of it. Each piece is given back when the client has taken it. A request that would
//     exceed either limit is told to come back later.
package spool

import (
	"compress/flate"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/contiv/netplugin/utils/fault"
)

const (
	// short is the longest answer that is kept as it is, in bytes.
	short = 256 << 10
	// moderate is the longest answer that is kept as it is while no other is, in bytes.
	moderate = 4 << 20
	// free is what an answer may take without counting: most take less.
	free = 32 << 10
	// piece is the unit of what counts.
	piece = 32 << 10
	// level of compression: the next ones take several times as long and save nothing.
	level = 4
	// turns is how many long answers are written at the same time.
	turns = 2
	// patience is how long a long answer waits for its turn.
	patience = 30 * time.Second
)

// Budget is what the answers of a server may take together.
type Budget struct {
	rest, turns *semaphore.Weighted
	plain       *semaphore.Weighted // of the one long answer that is kept as it is
	share       int64               // of one client

	mu sync.Mutex
	of map[string]int64 // what clients have of it, in bytes
}

// NewBudget makes a budget of so many bytes, of which one client may have a share.
func NewBudget(size, share int64) *Budget {
	return &Budget{rest: semaphore.NewWeighted(size), turns: semaphore.NewWeighted(turns), plain: semaphore.NewWeighted(1),
		share: share, of: map[string]int64{}}
}

// take counts a piece for a client, of whose answers this one has so many bytes. It fails, and counts nothing, if
// there is none left for all, or for the client. The only answer of a client may be longer than a share.
func (b *Budget) take(client string, held int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if has := b.of[client]; client != "" && has > held && has+piece > b.share {
		return fault.New(fault.Unavailable, "%s has long answers of %d bytes that wait to be read: that is as much as one client may have, try again later", client, has)
	}
	if !b.rest.TryAcquire(piece) {
		return fault.New(fault.Unavailable, "too many long answers wait for their readers, try again later")
	}
	b.of[client] += piece
	return nil
}

// give takes bytes back.
func (b *Budget) give(client string, bytes int64) {
	if bytes == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest.Release(bytes)
	if b.of[client] -= bytes; b.of[client] == 0 {
		delete(b.of, client)
	}
}

// errLong ends the first attempt to write an answer that is not short.
var errLong = errors.New("the answer is long")

// Place is asked before an answer is written that is long. It refuses it, or is released when the
// answer has been read. nil: all are written.
type Place func() (release func(), err error)

// Write lets write make an answer. It is called a second time, from the
// beginning, if the answer is long. Errors are those of write and place, and
// fault.Unavailable if too much is kept already, for all or for the client. A client without
// a name may have all that there is. The caller closes the answer.
func (b *Budget) Write(ctx context.Context, client string, place Place, write func(out io.Writer) error) (*Answer, error) {
	answer := &Answer{budget: b, client: client}
	err := write(limited{answer})
	if errors.Is(err, errLong) {
		answer.Close()
		answer = &Answer{budget: b, client: client}
		if err = answer.take(place); err == nil {
			err = b.writeLong(ctx, answer, write)
		}
	}
	if err != nil {
		answer.Close()
		return nil, err
	}
	return answer, nil
}

func (b *Budget) writeLong(ctx context.Context, answer *Answer, write func(io.Writer) error) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.turns.Acquire(waiting, 1); err != nil {
		return fault.New(fault.Unavailable, "too many long answers are being written, try again later: %w", err)
	}
	defer b.turns.Release(1)
	out := &long{Answer: answer}
	if answer.plain = b.plain.TryAcquire(1); !answer.plain {
		if err := out.pack(); err != nil {
			return err
		}
	}
	if err := write(out); err != nil {
		return err
	}
	return out.complete()
}

// Answer is a complete answer. It is read once.
type Answer struct {
	budget *Budget
	client string
	place  func()   // releases it; nil: the answer has none
	pieces [][]byte // not sent yet
	read   int      // of the first piece
	kept   int      // bytes written to pieces
	held   int64    // of the budget
	plain  bool     // it is the long one that is kept as it is
	packed bool
	size   int64 // of a packed answer, as the client gets it
}

// Size is the length of the answer in bytes.
func (a *Answer) Size() int64 {
	if a.packed {
		return a.size
	}
	return int64(a.kept)
}

// WriteTo sends the answer, piece by piece, and gives back what is sent.
func (a *Answer) WriteTo(out io.Writer) (int64, error) {
	if a.packed {
		return io.Copy(out, flate.NewReader(a))
	}
	var sent int64
	for ; len(a.pieces) > 0; a.drop() {
		n, err := out.Write(a.pieces[0])
		if sent += int64(n); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// Read reads what is kept, as it is kept.
func (a *Answer) Read(p []byte) (int, error) {
	for len(a.pieces) > 0 && a.read == len(a.pieces[0]) {
		a.drop()
	}
	if len(a.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, a.pieces[0][a.read:])
	a.read += n
	return n, nil
}

// drop gives back the first piece.
func (a *Answer) drop() {
	a.pieces[0], a.read = nil, 0
	a.pieces = a.pieces[1:]
	if a.held > 0 {
		a.budget.give(a.client, piece)
		a.held -= piece
	}
}

func (a *Answer) take(place Place) (err error) {
	if place != nil {
		a.place, err = place()
	}
	return err
}

// Close gives back what is left.
func (a *Answer) Close() {
	if a.place != nil {
		a.place()
		a.place = nil
	}
	a.pieces = nil
	a.budget.give(a.client, a.held)
	a.held = 0
	a.giveWay()
}

// giveWay lets another long answer be kept as it is.
func (a *Answer) giveWay() {
	if a.plain {
		a.plain = false
		a.budget.plain.Release(1)
	}
}

// Write keeps what is written to the answer.
func (a *Answer) Write(p []byte) (int, error) {
	for written := 0; written < len(p); {
		if last := len(a.pieces) - 1; last < 0 || len(a.pieces[last]) == piece {
			if err := a.grow(); err != nil {
				return written, err
			}
		}
		last := &a.pieces[len(a.pieces)-1]
		n := min(piece-len(*last), len(p)-written)
		*last = append(*last, p[written:written+n]...)
		written, a.kept = written+n, a.kept+n
	}
	return len(p), nil
}

func (a *Answer) grow() error {
	if a.kept >= free {
		if err := a.budget.take(a.client, a.held); err != nil {
			return err
		}
		a.held += piece
	}
	var next []byte
	if a.kept > 0 {
		next = make([]byte, 0, piece) // the first one grows with a short answer
	}
	a.pieces = append(a.pieces, next)
	return nil
}

// limited lets only a short answer be written.
type limited struct{ *Answer }

func (l limited) Write(p []byte) (int, error) {
	if l.kept+len(p) > short {
		return 0, errLong
	}
	return l.Answer.Write(p)
}

// long is a long answer while it is written. What is not compressed from the beginning is from
// where it is more than moderate.
type long struct {
	*Answer
	packer *flate.Writer // nil: it is kept as it is
}

func (l *long) Write(p []byte) (int, error) {
	if l.packer == nil && l.kept+len(p) <= moderate {
		return l.Answer.Write(p)
	}
	if l.packer == nil {
		if err := l.pack(); err != nil {
			return 0, err
		}
	}
	n, err := l.packer.Write(p)
	l.size += int64(n)
	return n, err
}

// pack compresses what there is, and gives back what that took.
func (l *long) pack() (err error) {
	if l.packer, err = flate.NewWriter(l.Answer, level); err != nil {
		return err
	}
	pieces := l.pieces
	l.packed, l.size, l.pieces, l.kept = true, int64(l.kept), nil, 0
	for i := range pieces {
		if _, err := l.packer.Write(pieces[i]); err != nil {
			return err
		}
		pieces[i] = nil
		if i > 0 { // the first one is free
			l.budget.give(l.client, piece)
			l.held -= piece
		}
	}
	l.giveWay()
	return nil
}

func (l *long) complete() error {
	if l.packer == nil {
		return nil
	}
	return l.packer.Close()
}
