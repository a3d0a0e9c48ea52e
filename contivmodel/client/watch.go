package client

import (
	"bufio"
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
	// watchSilence is how long a server may say nothing; it sends a bookmark
	// every 30 seconds.
	watchSilence = 90 * time.Second
	// watchPatience is how long a watch that broke waits for a server.
	watchPatience = time.Minute
	// maxEvent bounds one line of a watch.
	maxEvent = 4 << 20
)

// Event is one change of an object.
type Event struct {
	Type     string
	Revision int64
	Object   contivmodel.Object // nil for a Bookmark
}

// Watch delivers the objects of a kind as Added, then a Bookmark, then every
// change, until ctx ends or deliver fails. With a tenant it is about the
// objects of that tenant. When the connection breaks, the watch goes on after
// the last revision, with any server; it fails if none is back within a minute.
func (c *Client) Watch(ctx context.Context, kind contivmodel.Kind, tenant string, deliver func(Event) error) error {
	w := &watch{client: c, kind: kind, tenant: tenant, deliver: deliver}
	if err := w.follow(ctx); !w.broke(ctx, err) {
		return err
	}
	for {
		began := w.revision
		if err := w.reconnect(ctx); !w.broke(ctx, err) || w.revision == began {
			return err
		}
	}
}

type watch struct {
	client   *Client
	kind     contivmodel.Kind
	tenant   string
	deliver  func(Event) error
	revision int64 // everything up to here has been delivered; 0 before the first bookmark
	stopped  error // what deliver returned
}

// broke tells whether an end is one to go on after.
func (w *watch) broke(ctx context.Context, err error) bool {
	return ctx.Err() == nil && w.stopped == nil && w.revision > 0 && elsewhere(err)
}

// reconnect follows again as soon as a server is there.
func (w *watch) reconnect(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	began := w.revision
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := w.follow(ctx)
		if w.revision > began || !w.broke(ctx, err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-patience.Done():
			timer.Stop()
			return err
		}
	}
}

// follow delivers the events of one connection, and says why it ended.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(watchSilence, cancel)
	defer alive.Stop()
	var stream *http.Response
	var server *url.URL
	err := w.client.inTurn(ctx, func(base *url.URL) (again bool, err error) {
		server = base
		stream, err = w.open(ctx, base)
		return elsewhere(err), err
	})
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		alive.Reset(watchSilence)
		if err := w.event(server, lines.Bytes()); err != nil {
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
	return unreachable(server, err)
}

// open begins a watch at one server.
func (w *watch) open(ctx context.Context, base *url.URL) (*http.Response, error) {
	query := url.Values{"watch": {"true"}}
	if w.tenant != "" {
		query.Set("tenant", w.tenant)
	}
	if w.revision > 0 {
		query.Set("revision", strconv.FormatInt(w.revision, 10))
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

// event understands and delivers one line.
func (w *watch) event(server *url.URL, line []byte) error {
	var read struct {
		Type     string          `json:"type"`
		Revision int64           `json:"revision"`
		Object   json.RawMessage `json:"object"`
	}
	path := pathOf(w.kind.Segment)
	if err := decode(server, path, line, &read); err != nil {
		return err
	}
	event := Event{Type: read.Type, Revision: read.Revision}
	if read.Type != Bookmark {
		event.Object = w.kind.New()
		if err := decode(server, path, read.Object, event.Object); err != nil {
			return err
		}
	}
	if w.stopped = w.deliver(event); w.stopped != nil {
		return w.stopped
	}
	if read.Type == Bookmark || w.revision > 0 {
		w.revision = max(w.revision, read.Revision)
	}
	return nil
}
