package audit

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// queued is an entry to be written.
type queued struct {
	Entry
	written chan<- error // receives nil when the entry is on the disk, or the error; nil: no caller waits
}

const (
	atOnce   = 256             // entries per sync of the file
	patience = 5 * time.Second // of waiting callers
)

// Strict makes changes wait for their lines. It must be called before Run.
func (l *Log) Strict() { l.strict = true }

// IsStrict reports whether changes wait for their lines.
func (l *Log) IsStrict() bool { return l != nil && l.strict }

// Begin returns when an entry about a change that is about to begin is on the disk; fault.Unavailable if the entry
// cannot be written: then the change must not be made. For a Log that is not strict, or nil, it returns nil at
// once.
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

// writeAll writes an entry and the queued ones after it, syncs the file and answers the waiting callers.
func (l *Log) writeAll(first queued) {
	var waiting []chan<- error
	for next, n := first, 1; ; n++ {
		err := l.write(next.Entry)
		l.report(err)
		if next.written != nil && err != nil {
			l.lost.give(-1) // the change of this entry is not made
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
