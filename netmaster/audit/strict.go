package audit

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// queued is an entry that is to be written.
type queued struct {
	Entry
	written chan<- error // is told when the disk has it, or why not; nil: nobody waits
}

const (
	atOnce   = 256             // entries that are written before those who wait are told
	patience = 5 * time.Second // of who waits
)

// Strict has changes wait for their lines. It is called before Run.
func (l *Log) Strict() { l.strict = true }

// IsStrict tells whether they do.
func (l *Log) IsStrict() bool { return l != nil && l.strict }

// Begin returns when the disk has an entry about a change that is to begin. It fails as unavailable if
// the entry cannot be written: then the change must not be made. A Log that is not strict, or nil, writes nothing.
func (l *Log) Begin(ctx context.Context, e Entry) error {
	if l == nil || !l.strict {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e.Decision = Begun
	written := make(chan error, 1)
	select {
	case l.entries <- queued{e.cut(), written}:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "audit: what is to be written down waits too long: nothing is changed meanwhile")
	}
	select {
	case err := <-written:
		if err != nil {
			return fault.New(fault.Unavailable, "audit: nothing can be written down, so nothing is changed: see the log of the leading netmaster")
		}
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "audit: what is to be written down waits too long: nothing is changed meanwhile")
	}
}

// writeAll writes an entry and those that wait behind it, and tells those who wait.
func (l *Log) writeAll(first queued) {
	var waiting []chan<- error
	for next, n := first, 1; ; n++ {
		err := l.write(next.Entry)
		l.report(err)
		if next.written != nil && err != nil {
			l.lost.Add(-1) // what it tells of does not happen
			next.written <- err
		} else if next.written != nil {
			waiting = append(waiting, next.written)
		}
		if n == atOnce || len(l.entries) == 0 {
			break
		}
		next = <-l.entries
	}
	if len(waiting) == 0 {
		return
	}
	err := l.unsynced
	l.unsynced = nil
	if l.file != nil {
		err = errors.Join(err, l.file.Sync())
	}
	l.report(err)
	for _, w := range waiting {
		w <- err
	}
}
