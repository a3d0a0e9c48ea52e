// Package spool buffers answers from the moment they are complete until their clients have read them.
//
// An answer is written as a whole before its first byte is sent: the snapshot
// that it was read from is released at once, however slowly the client reads,
// and an error in the middle is still an error to the client. Memory is bounded:
//
//   - A short answer is buffered as it is.
//   - A longer one is written again, by at most a few requests at a time. A request that waits for its turn
//     holds no memory meanwhile.
//   - It is compressed: the answer of a large cluster takes a tenth of its size, but more time than writing
//     it. A moderately long answer is buffered as it is while no other one is.
//   - All answers together use no more than a budget, and those of one client no more than a share of it. Each
//     piece is released when the client has received it. A request that would exceed either limit is refused
//     with a later retry.
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
	// short is the longest answer that is buffered as it is, in bytes.
	short = 256 << 10
	// moderate is the longest answer that is buffered as it is while no other is, in bytes.
	moderate = 4 << 20
	// free is the part of an answer that does not count, in bytes: most need less.
	free = 32 << 10
	// piece is the unit of counting, in bytes.
	piece = 32 << 10
	// level of compression: higher ones take several times as long and save nothing.
	level = 4
	// turns is how many long answers are written at the same time.
	turns = 2
	// patience is how long a long answer waits for its turn.
	patience = 30 * time.Second
)

// Budget is the memory that the answers of a server may use together.
type Budget struct {
	rest, turns *semaphore.Weighted
	plain       *semaphore.Weighted // for the only long answer without compression
	share       int64               // of one client

	mu sync.Mutex
	of map[string]int64 // bytes in use by client
}

// NewBudget returns a budget of so many bytes, of which one client may use a share.
func NewBudget(size, share int64) *Budget {
	return &Budget{rest: semaphore.NewWeighted(size), turns: semaphore.NewWeighted(turns), plain: semaphore.NewWeighted(1),
		share: share, of: map[string]int64{}}
}

// take counts a piece for a client; held are the bytes of the present answer. It fails, and counts nothing, if
// the budget or the client's share is used up. The only answer of a client may be longer than its share.
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

// give releases bytes.
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

// errLong ends the first attempt to write a long answer.
var errLong = errors.New("the answer is long")

// Place is called before a long answer is written. It refuses the answer, or returns a function that is called
// when the answer has been read. nil: no limit.
type Place func() (release func(), err error)

// Write buffers the answer that write produces. It calls write a second time, from the beginning, if the answer
// is long. Errors are those of write and place, and fault.Unavailable if the budget, or the client's share, is
// used up. A client without a name may use the whole budget. The caller closes the answer.
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
	place  func()   // releases the place; nil: none
	pieces [][]byte // not sent yet
	read   int      // of the first piece
	kept   int      // bytes written to pieces
	held   int64    // bytes of the budget
	plain  bool     // it is the only long one without compression
	packed bool
	size   int64 // uncompressed size of a packed answer
}

// Size returns the length of the uncompressed answer in bytes.
func (a *Answer) Size() int64 {
	if a.packed {
		return a.size
	}
	return int64(a.kept)
}

// WriteTo sends the answer, piece by piece, and releases sent pieces.
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

// Read reads the buffered, perhaps compressed, bytes.
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

// drop releases the first piece.
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

// Close releases the rest.
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

// giveWay lets another long answer be buffered without compression.
func (a *Answer) giveWay() {
	if a.plain {
		a.plain = false
		a.budget.plain.Release(1)
	}
}

// Write buffers bytes of the answer.
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

// limited accepts only a short answer.
type limited struct{ *Answer }

func (l limited) Write(p []byte) (int, error) {
	if l.kept+len(p) > short {
		return 0, errLong
	}
	return l.Answer.Write(p)
}

// long is a long answer while it is written. If it is not compressed from the start, it is once it exceeds moderate.
type long struct {
	*Answer
	packer *flate.Writer // nil: not compressed
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

// pack compresses the buffered bytes, and releases their pieces.
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
		if i > 0 { // the first piece does not count
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
