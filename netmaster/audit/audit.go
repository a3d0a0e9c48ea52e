// Package audit is the audit log: changes, and refusals, one line of JSON
// each, in a file that only grows until it is rotated.
//
// Each line has the hash of the line before it, so that a line that is changed or taken
// out of the middle is found (Verify). Somebody who can write the file can write it anew from
// some line on; a copy elsewhere shows that.
//
// Requests do not wait for the disk. The queue of lines is bounded; lines that found no room are
// counted, in the log and in the next line. In strict mode (Strict) no change begins
// before the line that says so is on the disk.
//
//	audit.go   the file
//	objects.go what a line about many objects names of them
//	strict.go  lines that are waited for
//	syslog.go  a copy of each line for syslog
//	verify.go  whether all lines follow each other
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
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/durable"
)

// Entry is one line.
type Entry struct {
	Time      time.Time `json:"time"`
	Request   string    `json:"requestId"`            // no other has it
	Told      string    `json:"xRequestId,omitempty"` // what the answer has in X-Request-Id; its client may have chosen it
	Principal string    `json:"principal"`            // "user/ann", "nobody"
	How       string    `json:"how"`                  // what showed it: token, certificate, socket, loopback, nothing
	Source    string    `json:"source"`               // address
	Verb      string    `json:"verb"`                 // of HTTP
	Key       string    `json:"key"`                  // path of what it is about
	About     string    `json:"about,omitempty"`      // what the path does not say: whom a login or a role is for, who joins with what
	Objects   []string  `json:"objects,omitempty"`    // of an apply: what became of each that it changed; those that it named, if it came to nothing
	More      int       `json:"more,omitempty"`       // of these, how many are not named, if it came to nothing
	Tenant    string    `json:"tenant,omitempty"`
	Decision  Decision  `json:"decision"`
	Reason    string    `json:"reason,omitempty"` // of a refusal
	Status    int       `json:"status"`           // of HTTP
	Revision  string    `json:"revision,omitempty"`
	Lost      int64     `json:"lost,omitempty"`   // entries before this one that did not find room
	Untold    int64     `json:"untold,omitempty"` // requests from there before this one, refused or failed, that have no lines
	Previous  string    `json:"previous"`         // SHA-256 of the line before; empty: there is none
}

// Decision is what became of a request as far as rights go.
type Decision string

// The decisions.
const (
	Allowed     Decision = "allowed"
	Denied      Decision = "denied"
	Begun       Decision = "begun"            // what became of it says the line that has its request id and a status
	WouldRefuse Decision = "would be refused" // in an enforced cluster
)

const (
	waiting   = 10_000    // entries that wait to be written
	fileSize  = 100 << 20 // bytes; then the file is put aside
	filesKept = 10        // of those put aside
	longest   = 64 << 10  // bytes of a line

	// longestText is how many bytes of a text of an entry are kept, and longestList of its objects together. JSON makes six of one
	// at most, so that all ten texts and the objects are below a line.
	longestText = 512
	longestList = 4 << 10
)

// Log is the file. The zero value is not usable.
type Log struct {
	path    string
	size    int64 // after which it is put aside
	log     *logrus.Entry
	entries chan queued
	lost    atomic.Int64
	strict  bool
	copies  []*syslog

	// These belong to Run.
	file     *os.File
	written  int64
	previous string
	unsynced error // of a file put aside, for those who wait for what is in it
}

// New prepares a log; the file is opened for the first entry.
func New(path string, log *logrus.Entry) *Log {
	return &Log{path: path, size: fileSize, log: log, entries: make(chan queued, waiting)}
}

// Add takes an entry, whose texts it cuts; one with more objects than a line names is several lines. It never blocks; a Log that is
// nil takes none.
func (l *Log) Add(e Entry) {
	if l == nil {
		return
	}
	for line := range e.lines() {
		select {
		case l.entries <- queued{Entry: line}:
		default:
			l.lost.Add(1)
		}
	}
}

// cut keeps the beginnings of the texts.
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

// cut keeps the beginning of a text that somebody else may have chosen, and no more of it
// in memory.
func cut(text string) string {
	if len(text) > longestText {
		text = strings.Clone(text[:longestText]) + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// Run writes entries until ctx ends, and then those that are there.
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

// write adds a line.
func (l *Log) write(e Entry) error {
	if err := l.open(); err != nil {
		l.lost.Add(1)
		return err
	}
	e.Previous, e.Lost = l.previous, l.lost.Swap(0)
	line, err := json.Marshal(e)
	if err != nil {
		l.lost.Add(e.Lost + 1)
		return err
	}
	n, err := l.file.Write(append(line, '\n'))
	if err != nil {
		l.lost.Add(e.Lost + 1)
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

// open opens the file and finds the line to go on after.
func (l *Log) open() (err error) {
	if l.file != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o750); err != nil {
		return err
	}
	last, size, whole, err := lastLine(l.path)
	if err != nil {
		return err
	}
	if !whole { // a crash cut it
		if err := l.rename(); err != nil {
			return err
		}
		size = 0
	}
	if last == nil && l.previous == "" {
		last = l.lastAside()
	}
	if last != nil {
		l.previous = hashOf(last)
	}
	l.written = size
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err == nil && size == 0 { // that there is a new file, and what was put aside for it
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

// lastAside is the last line of the files put aside; nil if there is none, or it cannot be read.
func (l *Log) lastAside() []byte {
	for n := 1; n <= filesKept; n++ {
		if last, _, _, err := lastLine(fmt.Sprintf("%s.%d", l.path, n)); last != nil || err != nil {
			return last
		}
	}
	return nil
}

// truncatePartial removes a partly written line from the file, which works on a full disk, too. If it fails, the file is opened
// and checked again before the next line.
func (l *Log) truncatePartial() error {
	err := l.file.Truncate(l.written)
	if err != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	return err
}

// rotate closes a file; the chain of hashes continues in the next one, or in the same one if it cannot be renamed.
func (l *Log) rotate() {
	l.unsynced = errors.Join(l.file.Sync(), l.file.Close())
	l.file, l.written = nil, 0
	l.report(l.rename())
}

// rename makes audit.log audit.log.1, and so on; the oldest goes.
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

// lastLine is the last whole line of a file, nil if there is none, and whether the file
// ends with it.
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
