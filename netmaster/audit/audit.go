// Package audit is the audit log: changes, and refusals, one line of JSON each, in a file that only grows until it
// is rotated.
//
// Each line has the hash of the previous line, so that a line that is changed or removed in the middle is detected
// (Verify). A program that can write the file can rewrite it from some line on; a copy on another machine shows
// that.
//
// Requests do not wait for the disk. The queue of lines is bounded; dropped lines are counted, in the log and in
// the next line. In strict mode (Strict) no change begins before the line about it is on the disk.
//
//	audit.go   the file
//	objects.go the objects in a line about many
//	losses.go  counts of lines that were lost
//	strict.go  lines for which requests wait
//	syslog.go  a copy of each line for syslog
//	verify.go  verification of the chain of hashes
package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/durable"
)

// Entry is one line.
type Entry struct {
	Time      time.Time `json:"time"`
	Request   string    `json:"requestId"`            // unique
	Told      string    `json:"xRequestId,omitempty"` // X-Request-Id of the answer; the client may have chosen it
	Principal string    `json:"principal"`            // "user/ann", "nobody"
	How       string    `json:"how"`                  // how it was authenticated: token, certificate, socket, loopback, nothing
	Source    string    `json:"source"`               // address
	Verb      string    `json:"verb"`                 // HTTP method
	Key       string    `json:"key"`                  // path of the object
	About     string    `json:"about,omitempty"`      // details that are not in the path: the user of a login or role, the identity that joins and how
	Objects   []string  `json:"objects,omitempty"`    // of an apply: the result for each object that it changed; the objects in the request, if it failed
	More      int       `json:"more,omitempty"`       // number of these objects that are not in the list, if it failed
	Tenant    string    `json:"tenant,omitempty"`
	Decision  Decision  `json:"decision"`
	Reason    string    `json:"reason,omitempty"` // of a refusal
	Status    int       `json:"status"`           // HTTP status
	Revision  string    `json:"revision,omitempty"`
	Lost      int64     `json:"lost,omitempty"`   // dropped entries before this one
	Untold    int64     `json:"untold,omitempty"` // refused or failed requests from this source before this one that have no lines
	Previous  string    `json:"previous"`         // SHA-256 of the previous line; empty: there is none
}

// Decision is the result of the authorization of a request.
type Decision string

// The decisions.
const (
	Allowed     Decision = "allowed"
	Denied      Decision = "denied"
	Begun       Decision = "begun"            // the line with the same request id and a status has the result
	WouldRefuse Decision = "would be refused" // in an enforced cluster
)

const (
	waiting   = 10_000    // capacity of the queue
	fileSize  = 100 << 20 // bytes; then the file is rotated
	filesKept = 10        // rotated files
	longest   = 64 << 10  // bytes of a line

	// longestText is the largest size of a text in an entry, in bytes, and longestList that of its objects together.
	// In JSON a byte becomes six at most, so all ten texts and the objects fit into a line.
	longestText = 512
	longestList = 4 << 10
)

// Log is the audit log. The zero value is not usable.
type Log struct {
	path    string
	size    int64 // at which the file is rotated
	log     *logrus.Entry
	entries chan queued
	lost    losses
	strict  bool
	copies  []*syslog

	// Used by Run only.
	file     *os.File
	written  int64
	previous string
	unsynced error // error of a rotated file, for the callers that wait for its lines
}

// New returns a log; the file is opened for the first entry.
func New(path string, log *logrus.Entry) *Log {
	return &Log{path: path, size: fileSize, log: log, entries: make(chan queued, waiting)}
}

// Add queues an entry, with its texts shortened; one with more objects than fit into a line becomes several lines.
// It never blocks; a nil Log drops the entry.
func (l *Log) Add(e Entry) {
	if l == nil {
		return
	}
	for line := range e.lines() {
		select {
		case l.entries <- queued{Entry: line}:
		default:
			l.lost.add(1)
		}
	}
}

// cut returns the entry with its texts shortened.
func (e Entry) cut() Entry {
	for _, text := range []*string{&e.Request, &e.Principal, &e.How, &e.Source, &e.Verb, &e.Key, &e.About, &e.Tenant, &e.Reason, &e.Revision} {
		*text = cut(*text)
	}
	objects := slices.Clone(e.Objects)
	for i, object := range objects {
		objects[i] = cut(object)
	}
	e.Objects = objects
	return e
}

// cut returns the beginning of a text that a client may have chosen, without a reference to the rest.
func cut(text string) string {
	if len(text) > longestText {
		text = strings.Clone(text[:longestText]) + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// Run writes entries until ctx ends, and then those that are still queued.
func (l *Log) Run(ctx context.Context) {
	if l == nil {
		return
	}
	var copying sync.WaitGroup
	defer copying.Wait()
	sending, sent := context.WithCancel(context.WithoutCancel(ctx)) // copies of the last lines are sent, too
	defer sent()
	for _, c := range l.copies {
		copying.Go(func() { c.run(sending) })
	}
	defer func() {
		if l.file != nil {
			l.report(l.file.Close())
			l.file = nil
		}
	}()
	for {
		select {
		case e := <-l.entries:
			l.writeAll(e)
			continue
		default:
		}
		select {
		case e := <-l.entries:
			l.writeAll(e)
		case <-ctx.Done():
			if len(l.entries) == 0 {
				return
			}
		}
	}
}

func (l *Log) report(err error) {
	if err != nil {
		l.log.WithError(err).Error("audit: what was done is not written down")
	}
}

// write writes a line.
func (l *Log) write(e Entry) error {
	if err := l.open(); err != nil {
		l.lost.add(1)
		return err
	}
	e.Previous, e.Lost = l.previous, l.lost.take()
	line, err := json.Marshal(e)
	if err != nil {
		l.lost.give(e.Lost)
		l.lost.add(1)
		return err
	}
	n, err := l.file.Write(append(line, '\n'))
	if err != nil {
		l.lost.give(e.Lost)
		l.lost.add(1)
		return errors.Join(err, l.truncatePartial())
	}
	l.written += int64(n)
	l.previous = hashOf(line)
	for _, c := range l.copies {
		c.add(e.Time, line)
	}
	if e.Lost > 0 {
		l.log.WithField("lost", e.Lost).Error("audit: entries did not find room")
	}
	if l.written >= l.size {
		l.rotate()
	}
	return nil
}

// open opens the file and finds the last line, also if another program has taken the open file away.
func (l *Log) open() (err error) {
	if l.file != nil && !l.isTaken() {
		return nil
	}
	if l.file != nil {
		l.log.WithField("file", l.path).Error("audit: another program has removed, moved or replaced the file: lines go on in a new one")
		l.unsynced = errors.Join(l.unsynced, l.file.Sync(), l.file.Close())
		l.file = nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o750); err != nil {
		return err
	}
	last, size, whole, err := lastLine(l.path)
	if err != nil {
		return err
	}
	if !whole { // cut off by a crash
		if err := l.rename(); err != nil {
			return err
		}
		size = 0
	}
	if l.previous == "" { // else the chain goes on from our own last line, so that it shows whether others are missing
		if last == nil {
			last = l.lastAside()
		}
		if last != nil {
			l.previous = hashOf(last)
		}
	}
	l.written = size
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err == nil && size == 0 { // the new directory entry, and that of a renamed file
		err = durable.Sync(l.path)
	}
	if err != nil {
		if file != nil {
			_ = file.Close() // nothing was written
		}
		return err
	}
	l.file = file
	return nil
}

// isTaken returns whether the path does not lead to the open file any more.
func (l *Log) isTaken() bool {
	there, err := os.Stat(l.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	open, err := l.file.Stat()
	return err == nil && !os.SameFile(there, open)
}

// lastAside returns the last line of the rotated files; nil if there is none, or it cannot be read.
func (l *Log) lastAside() []byte {
	for n := 1; n <= filesKept; n++ {
		if last, _, _, err := lastLine(fmt.Sprintf("%s.%d", l.path, n)); last != nil || err != nil {
			return last
		}
	}
	return nil
}

// truncatePartial removes a partly written line from the file, which works on a full disk, too. If it fails, the
// file is opened and checked again before the next line.
func (l *Log) truncatePartial() error {
	err := l.file.Truncate(l.written)
	if err != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	return err
}

// rotate closes and renames the file; the chain of hashes continues in the next one, or in the same one if it
// cannot be renamed.
func (l *Log) rotate() {
	l.unsynced = errors.Join(l.unsynced, l.file.Sync(), l.file.Close())
	l.file, l.written = nil, 0
	l.report(l.rename())
}

// rename renames audit.log to audit.log.1, and so on; the oldest is removed.
func (l *Log) rename() error {
	for n := filesKept; n > 0; n-- {
		from := fmt.Sprintf("%s.%d", l.path, n-1)
		if n == 1 {
			from = l.path
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", l.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lastLine returns the last whole line of a file, nil if there is none, and whether the file ends with it.
func lastLine(path string) (last []byte, size int64, whole bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, true, nil
	}
	if err != nil {
		return nil, 0, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, false, err
	}
	tail := make([]byte, min(info.Size(), 2*longest))
	if _, err := file.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, false, err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 {
		return nil, info.Size(), len(tail) == 0, nil
	}
	return tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end], info.Size(), end == len(tail)-1, nil
}

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
