package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
)

// A watch is a stream of the changes of a collection. All watches read one feed of the term; each of them has
// only a revision and a connection, so neither many nor slow watches hold anything up. A watch ends with the
// term. The client continues at the new leader after the last revision that it received.

const (
	// bookmarkEvery is the default of the longest silence of a watch.
	bookmarkEvery = 30 * time.Second
	// bookmarkAfter is the number of changes of other objects after which a watch sends a bookmark early.
	// Leaders may change more often than bookmarks are due, and the feed of the next one (mirror.Feed) keeps so many
	// changes only.
	bookmarkAfter = 1000
	// rightsEvery is how often an idle watch checks that its caller may still see the collection. It also
	// checks before each line, which is all that an open cluster needs.
	rightsEvery = 500 * time.Millisecond
	// maxWatches is the maximum number of watches: each occupies a connection.
	maxWatches = 512
)

// Feed returns the changes after a revision.
type Feed interface {
	Run(ctx context.Context) error
	Revision() (rev int64, begun bool)
	Newest() int64
	After(rev int64) (changes []mirror.Change, upTo int64, more <-chan struct{}, err error)
}

// event is one line of a watch.
type event struct {
	Type     string `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK
	Revision int64  `json:"revision"`
	Object   any    `json:"object,omitempty"`
}

// Run serves watches until ctx ends, and then ends them. Meanwhile it stores the last use of API tokens.
func (a *API) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var storing sync.WaitGroup
	storing.Go(func() { a.logins.Run(ctx) })
	defer storing.Wait()
	defer cancel()
	defer close(a.ended) // watches do not wait for the store
	return a.feed.Run(ctx)
}

// wantsWatch reports whether a list request asks for a watch.
func wantsWatch(r *http.Request) (bool, error) {
	watch, err := rest.Flag(r, "watch")
	return watch && r.Method == http.MethodGet, err
}

// watch is one watch in progress.
type watch struct {
	api      *API
	asked    *http.Request
	caller   *auth.Caller
	kind     contivmodel.Kind
	scope    scope // what the caller may see; see allowed
	revision int64 // everything up to here has been sent; 0: nothing

	// The initial objects may be newer than revision. No bookmark is sent until all changes up to the newest of
	// them have been sent, except those that they include.
	listed map[string]int64 // revisions of the initial objects newer than revision
	newest int64            // the highest of these; 0 once the bookmark has been sent
	passed int              // changes of other objects since the last line
}

// watch answers a stream of events.
func (a *API) watch(r *http.Request, kind contivmodel.Kind) (rest.Reply, error) {
	w := &watch{api: a, asked: r, caller: auth.CallerFrom(r.Context()), kind: kind}
	if text := r.URL.Query().Get("revision"); text != "" {
		rev, err := strconv.ParseInt(text, 10, 64)
		if err != nil || rev < 0 {
			return rest.Reply{}, fault.New(fault.Invalid, "revision %s is not a number", text).WithField("revision")
		}
		w.revision = rev
	}
	if err := a.ledger.View(w.begin); err != nil {
		return rest.Reply{}, err
	}
	if err := w.checkRevision(r.Context()); err != nil {
		return rest.Reply{}, err
	}
	release, err := a.mayWatch(r.Context())
	if err != nil {
		return rest.Reply{}, err
	}
	var present *spool.Answer
	if w.revision == 0 {
		var err error
		if present, err = w.present(r.Context()); err != nil {
			release()
			return rest.Reply{}, err
		}
		if err := a.config.Trusted(); err != nil {
			release()
			present.Close()
			return rest.Reply{}, err
		}
	}
	return rest.Reply{Stream: func(client http.ResponseWriter) {
		defer release()
		out := rest.NewStream(client, w.api.config.Trusted)
		if present != nil {
			_, err := present.WriteTo(client)
			present.Close()
			if err != nil {
				return
			}
		}
		w.run(r.Context(), out)
	}}, nil
}

// mayWatch counts a watch until release is called; it fails if there are too many.
func (a *API) mayWatch(ctx context.Context) (release func(), err error) {
	own, err := a.entrance.Take(ctx, ratelimit.Watch)
	if err != nil {
		return nil, err
	}
	release = func() { a.watching.Add(-1); own() }
	if a.watching.Add(1) > maxWatches {
		release()
		return nil, fault.New(fault.Unavailable, "too many watches: there are %d", maxWatches)
	}
	return release, nil
}

// begin determines what the caller may see. If that has changed since the revision at which the watch is to
// continue, the client has to list again.
func (w *watch) begin(r ledger.Reader) (err error) {
	if w.scope, err = scopeOf(r, w.kind, w.asked); err != nil || w.caller == nil {
		return err
	}
	if since := access.Since(r, w.caller.Who); w.revision > 0 && since > w.revision {
		return goneError(fault.New(fault.Conflict, "revision %d: what %s may see changed at revision %d", w.revision, w.caller.Who, since))
	}
	if w.scope.isEmpty() { // it would occupy one of the limited places
		return rest.Denial{Cause: fault.New(fault.Denied, "%s may see nothing of type %s, and so not watch it", w.caller.Who, w.kind.Type), Status: http.StatusForbidden}
	}
	return nil
}

// errOver ends a watch whose caller's rights have changed. The client reconnects, and gets the reason.
var errOver = errors.New("other rights")

// allowed returns an error unless the caller may still see in this snapshot all that it could see at the
// beginning.
func (w *watch) allowed(r ledger.Reader) error {
	if mode, err := access.ModeOf(r); err != nil || mode != w.caller.Mode() {
		return errOver
	}
	if w.caller == nil {
		return nil
	}
	now, err := scopeOf(r, w.kind, w.asked)
	if err != nil || w.caller.Still(r) != nil || !now.equal(w.scope) {
		return errOver
	}
	w.api.logins.NoteUse(w.caller.Who)
	return nil
}

// checkRevision refuses a revision at which the feed cannot continue.
func (w *watch) checkRevision(ctx context.Context) error {
	if err := w.waitForFeed(ctx); err != nil || w.revision == 0 {
		return err
	}
	if _, _, _, err := w.api.feed.After(w.revision); err != nil {
		return goneError(err)
	}
	return w.api.ledger.View(func(r ledger.Reader) error {
		// Revisions that other leaders sent are not later than the store was when this leader's term began.
		if present := max(w.api.feed.Newest(), r.Newest()); w.revision > present {
			return goneError(fault.New(fault.Conflict, "revision %d is not known, the present one is %d", w.revision, present))
		}
		return nil
	})
}

// waitForFeed waits until the feed has changes.
func (w *watch) waitForFeed(ctx context.Context) error {
	for {
		_, _, more, _ := w.api.feed.After(w.revision)
		if _, begun := w.api.feed.Revision(); begun {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "watch: %w", ctx.Err())
		case <-w.api.ended:
			return fault.New(fault.NotLeader, "not the leader any more")
		}
	}
}

// goneError returns the error (410 Gone) for a revision at which a client cannot continue.
func goneError(err error) error { return rest.WithStatus(http.StatusGone, err) }

// run sends events until the client, the term or the feed ends.
func (w *watch) run(ctx context.Context, out *rest.Stream) {
	bookmark := time.NewTicker(w.api.config.Bookmarks)
	defer bookmark.Stop()
	again, stop := w.recheckTimer()
	defer stop()
	for {
		changes, upTo, more, err := w.api.feed.After(w.revision)
		if err != nil || w.tell(out, changes, upTo) != nil {
			return
		}
		if w.newest > 0 && w.revision >= w.newest || w.newest == 0 && w.passed >= bookmarkAfter {
			w.newest, w.listed, w.passed = 0, nil, 0
			if w.bookmark(out) != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
		if len(changes) > 0 {
			continue
		}
		select {
		case <-more:
		case <-bookmark.C:
			if w.bookmark(out) != nil {
				return
			}
		case <-again:
			if w.api.ledger.View(w.allowed) != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-w.api.ended:
			return
		}
	}
}

// recheckTimer returns a timer after which an idle watch checks again whether its caller may still see the
// collection; none in an open cluster.
func (w *watch) recheckTimer() (due <-chan time.Time, stop func()) {
	if w.caller == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(rightsEvery)
	return ticker.C, ticker.Stop
}

// present returns the events of the initial objects.
func (w *watch) present(ctx context.Context) (there *spool.Answer, err error) {
	place := w.api.entrance.LongAnswer(ctx)
	err = retryAfterStored(ctx, func() (err error) {
		there, err = w.api.answers.Write(ctx, auth.BudgetKey(w.asked), place, w.list)
		return err
	})
	return there, err
}

// list writes the events of the initial objects.
func (w *watch) list(out io.Writer) error {
	lines := rest.Lines(out)
	return w.api.ledger.View(func(r ledger.Reader) (err error) {
		if err = w.begin(r); err != nil {
			return err
		}
		w.revision, w.listed = r.Snapshot(mastercfg.ModelRoot), map[string]int64{}
		w.newest = w.revision
		for _, prefix := range w.scope.prefixes {
			r.Range(prefix, func(key string, value []byte) bool {
				o := w.object(r, value)
				if o == nil || !w.scope.holds(key) {
					return true
				}
				var rev int64
				if rev, err = r.Tag(key); err != nil {
					return false
				}
				if rev > w.revision {
					w.listed[key], w.newest = rev, max(rev, w.newest)
				}
				err = lines.Encode(event{"ADDED", rev, o})
				return err == nil
			})
		}
		return err
	})
}

// tell writes the changes in the scope. While it waits for the client, it holds no snapshot, and no change that
// was sent already or is not to be sent.
func (w *watch) tell(out *rest.Stream, changes []mirror.Change, upTo int64) error {
	own := slices.DeleteFunc(changes, w.isHidden) // clears the rest
	for len(own) > 0 {
		err := w.api.ledger.View(func(r ledger.Reader) (err error) {
			own, err = w.fill(out, r, own)
			return err
		})
		if err == nil && out.Full() {
			err = out.Flush()
		}
		if err != nil {
			return err
		}
	}
	w.revision = upTo
	return nil
}

// fill writes changes to the buffer of a stream until that is full, and returns the rest.
func (w *watch) fill(out *rest.Stream, r ledger.Reader, changes []mirror.Change) ([]mirror.Change, error) {
	if err := w.allowed(r); err != nil {
		return changes, err
	}
	for ; len(changes) > 0 && !out.Full(); changes = changes[1:] {
		if e, ok := w.event(r, changes[0]); ok {
			if err := out.Line(e); err != nil {
				return changes, err
			}
		}
		changes[0] = mirror.Change{}
	}
	return changes, nil
}

// bookmark writes the revision up to which the client has received everything, after checking that the client may
// still see the collection: a watch that continues there would not notice an earlier change of the client's rights.
func (w *watch) bookmark(out *rest.Stream) error {
	if err := w.api.ledger.View(w.allowed); err != nil {
		return err
	}
	return out.Line(event{Type: "BOOKMARK", Revision: w.revision})
}

// isHidden reports whether a change is not sent to the client, and counts these.
func (w *watch) isHidden(c mirror.Change) bool {
	if !w.scope.holds(c.Key) || c.Revision <= w.listed[c.Key] {
		w.passed++
		return true
	}
	w.passed = 0
	return false
}

// event returns the event of a change; ok is false for unreadable values.
func (w *watch) event(r ledger.Reader, c mirror.Change) (e event, ok bool) {
	if c.Value == nil {
		if o := w.decode(c.Prev); o != nil {
			return event{"DELETED", c.Revision, o}, true
		}
		key := strings.TrimPrefix(c.Key, mastercfg.ModelKey(w.kind.Type, ""))
		return event{"DELETED", c.Revision, map[string]string{"key": key}}, true
	}
	what := "MODIFIED"
	if c.Created {
		what = "ADDED"
	}
	o := w.object(r, c.Value)
	return event{what, c.Revision, o}, o != nil
}

// object returns a stored object with its present links; nil if it is unreadable.
func (w *watch) object(r ledger.Reader, value []byte) contivmodel.Object {
	o := w.decode(value)
	if o != nil {
		master.Complete(r, o)
	}
	return o
}

func (w *watch) decode(value []byte) contivmodel.Object {
	o := w.kind.New()
	if json.Unmarshal(value, o) != nil {
		return nil // the reconciler reports it
	}
	contivmodel.Redact(o)
	return o
}
