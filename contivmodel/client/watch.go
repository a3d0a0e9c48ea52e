package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Types of events.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK" // no object: everything up to the revision has been delivered
)

const (
	// watchSilence is how long a server may be silent; it sends a bookmark every 30 seconds.
	watchSilence = 90 * time.Second
	// watchPatience is how long a broken watch waits for a server.
	watchPatience = time.Minute
	// watchPause is the first pause before another attempt; it doubles up to the longest.
	watchPause, watchPauseLongest = 100 * time.Millisecond, 5 * time.Second
	// maxEvent limits the size of one line of a watch.
	maxEvent = 4 << 20
)

// Event is one change of an object.
type Event struct {
	Type     string
	Revision int64
	Key      string             // of the object; empty for a Bookmark
	Object   contivmodel.Object // nil for a Bookmark; empty except Key if a deleted object could not be read
}

// Watch delivers the objects of a kind as Added, then a Bookmark, then every change, until ctx ends or deliver
// fails. With a tenant it watches the objects of that tenant. When the connection breaks, the watch continues
// after the last revision, with any server; it fails if none is back within a minute.
func (c *Client) Watch(ctx context.Context, kind contivmodel.Kind, tenant string, deliver func(Event) error) error {
	w := &watch{client: c, kind: kind, tenant: tenant, deliver: deliver}
	pause, lost := watchPause, time.Now()
	for {
		w.opened, w.heard = false, false
		err := w.follow(ctx)
		if w.opened {
			lost = time.Now()
		}
		if w.heard {
			pause = watchPause
		}
		if !w.broke(ctx, err) || time.Since(lost) > watchPatience {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, watchPauseLongest)
	}
}

type watch struct {
	client  *Client
	kind    contivmodel.Kind
	tenant  string
	deliver func(Event) error
	stopped error // what deliver returned

	opened, heard bool // the present connection was accepted, and has received something

	// Everything up to complete has been delivered; it is 0 before the first
	// bookmark. Of the revision after it, which may have changed several
	// objects, those in latest have been delivered.
	complete int64
	latest   map[string]bool
}

// broke reports whether the watch continues after this error.
func (w *watch) broke(ctx context.Context, err error) bool {
	return ctx.Err() == nil && w.stopped == nil && w.complete > 0 && elsewhere(err)
}

// follow delivers the events of one connection, and returns why it ended.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(watchSilence, cancel)
	defer alive.Stop()
	var stream *http.Response
	var at *server
	err := w.client.inTurn(ctx, func(base *server) (again bool, err error) {
		at = base
		stream, err = w.open(ctx, base)
		return elsewhere(err), err
	})
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	w.opened = true
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, maxEvent)
	lines.Split(wholeLines)
	for lines.Scan() {
		w.heard = true
		alive.Reset(watchSilence)
		if err := w.event(at, lines.Bytes()); err != nil {
			return err
		}
	}
	err = lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fault.New(fault.TooLarge, "watch %s: an event exceeds %d MiB", w.kind.Segment, maxEvent>>20)
	case err == nil:
		err = io.EOF
	}
	return unreachable(at, err)
}

// wholeLines is bufio.ScanLines that drops an incomplete last line of a broken connection.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if atEOF && !bytes.Contains(data, []byte("\n")) {
		return len(data), nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// open starts a watch at one server.
func (w *watch) open(ctx context.Context, base *server) (*http.Response, error) {
	query := url.Values{"watch": {"true"}}
	if w.tenant != "" {
		query.Set("tenant", w.tenant)
	}
	if w.complete > 0 {
		query.Set("revision", strconv.FormatInt(w.complete, 10))
	}
	resp, err := w.client.open(ctx, base, request{method: http.MethodGet, path: pathOf(w.kind.Segment) + "?" + query.Encode()})
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
	if err != nil {
		return nil, unreachable(base, err)
	}
	return nil, refusal(resp, answer)
}

// event decodes and delivers one line.
func (w *watch) event(at *server, line []byte) error {
	var read struct {
		Type     string          `json:"type"`
		Revision int64           `json:"revision"`
		Object   json.RawMessage `json:"object"`
	}
	path := pathOf(w.kind.Segment)
	if err := decode(at, path, line, &read); err != nil {
		return err
	}
	event := Event{Type: read.Type, Revision: read.Revision}
	if read.Type != Bookmark {
		var named struct{ Key string }
		event.Object = w.kind.New()
		if err := errors.Join(decode(at, path, read.Object, &named), decode(at, path, read.Object, event.Object)); err != nil {
			return err
		}
		event.Key = named.Key
	}
	if w.known(event) {
		return nil
	}
	w.stopped = w.deliver(event)
	return w.stopped
}

// known records the progress of the watch, and reports whether an event was delivered before the connection broke.
func (w *watch) known(e Event) bool {
	switch {
	case e.Type == Bookmark:
		if e.Revision > w.complete { // else it is about an earlier revision
			w.complete, w.latest = e.Revision, nil
		}
	case w.complete == 0 || e.Revision <= w.complete:
		// For the initial objects, the bookmark has the revision.
	case e.Revision > w.complete+1:
		w.complete, w.latest = e.Revision-1, map[string]bool{e.Key: true}
	default:
		if w.latest[e.Key] {
			return true
		}
		if w.latest == nil {
			w.latest = map[string]bool{}
		}
		w.latest[e.Key] = true
	}
	return false
}
