package audit

import "sync/atomic"

// losses counts lines that were lost: all of them, for the metrics, and those that were not reported yet.
type losses struct{ all, unreported atomic.Int64 }

// add counts n more.
func (l *losses) add(n int64) {
	l.all.Add(n)
	l.unreported.Add(n)
}

// take returns the number of those that were not reported; the caller reports them.
func (l *losses) take() int64 { return l.unreported.Swap(0) }

// give is the inverse of take, for a report that failed.
func (l *losses) give(n int64) { l.unreported.Add(n) }

// Lost returns the number of lines that could not be written to the file since the start, for want of room in the queue or on
// the disk; 0 for a nil Log. In strict mode those of changes that were refused therefore are among them.
func (l *Log) Lost() int64 {
	if l == nil {
		return 0
	}
	return l.lost.all.Load()
}

// Uncopied returns the number of lines that no syslog server was sent since the start, though they are in the file;
// 0 for a nil Log.
func (l *Log) Uncopied() (n int64) {
	if l == nil {
		return 0
	}
	for _, c := range l.copies {
		n += c.lost.all.Load()
	}
	return n
}
