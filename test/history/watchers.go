package history

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/test/testkit"
)

// watchedTenant is the tenant that is also watched separately.
const watchedTenant = "t1"

// Watchers watch the objects of every kind as clients do, from the beginning to the end, during all disturbances.
type Watchers struct {
	all     []*watcher
	working sync.WaitGroup
	stop    context.CancelFunc
}

// watcher is one watch with its events.
type watcher struct {
	name   string
	prefix string // of the keys that it has to report

	mu    sync.Mutex
	since int64 // revision of the first bookmark; 0 before it
	told  []client.Event
	ended error
}

// Watch starts to watch every kind, and one of them for one tenant only. Each watch begins at another netmaster.
func Watch(ctx context.Context, cluster *Cluster) (*Watchers, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &Watchers{stop: stop}
	for i, kind := range contivmodel.Kinds() {
		if err := w.watch(ctx, cluster, i, kind, ""); err != nil {
			w.end()
			return nil, err
		}
	}
	kind, _ := contivmodel.KindByType("endpointGroup")
	if err := w.watch(ctx, cluster, 0, kind, watchedTenant); err != nil {
		w.end()
		return nil, err
	}
	for _, one := range w.all {
		if err := one.begin(ctx); err != nil {
			w.end()
			return nil, err
		}
	}
	return w, nil
}

// begin waits for the first bookmark. A watch that breaks before that fails: it does not know where to continue.
func (w *watcher) begin(ctx context.Context) error {
	var ended error
	err := testkit.Until(ctx, "the first bookmark of "+w.name, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		ended = w.ended
		return w.since > 0 || ended != nil
	})
	if err == nil && ended != nil {
		err = fmt.Errorf("%s: ended: %w", w.name, ended)
	}
	return err
}

// end ends all watches.
func (w *Watchers) end() {
	w.stop()
	w.working.Wait()
}

func (w *Watchers) watch(ctx context.Context, cluster *Cluster, first int, kind contivmodel.Kind, tenant string) error {
	var urls []string
	for i := range members {
		urls = append(urls, "http://"+cluster.nodes[(first+i)%members].address)
	}
	c, err := client.New(client.Config{URLs: urls})
	if err != nil {
		return err
	}
	one := &watcher{name: "watch of " + kind.Segment, prefix: modelKey(kind.Type, "")}
	if tenant != "" {
		one.name, one.prefix = one.name+" of tenant "+tenant, one.prefix+tenant+":"
	}
	w.all = append(w.all, one)
	w.working.Go(func() {
		err := c.Watch(ctx, kind, tenant, one.hear)
		one.mu.Lock()
		defer one.mu.Unlock()
		if ctx.Err() == nil {
			one.ended = err
		}
	})
	return nil
}

func (w *watcher) hear(e client.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Type == client.Bookmark && w.since == 0:
		w.since = e.Revision
	case e.Type != client.Bookmark && w.since > 0:
		w.told = append(w.told, e)
	}
	return nil
}

func (w *watcher) begun() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// hearingTime is how long the last events may take to arrive.
const hearingTime = time.Minute

// Compare waits until the watches have reached the end of the history, stops them and lists the differences.
func (w *Watchers) Compare(ctx context.Context, log *Log) []string {
	waiting, cancel := context.WithTimeout(ctx, hearingTime)
	defer cancel()
	for _, one := range w.all {
		wanted := len(log.eventsOf(one.prefix, one.begun()))
		_ = testkit.Until(waiting, one.name, func() bool { // missing events are found below
			one.mu.Lock()
			defer one.mu.Unlock()
			return len(one.told) >= wanted || one.ended != nil
		})
	}
	w.end()
	var found []string
	for _, one := range w.all {
		found = append(found, one.compare(log)...)
	}
	return found
}

// eventOf returns a line of a watch as text.
func eventOf(revision int64, typ, key string) string {
	return fmt.Sprintf("revision %d: %s %s", revision, typ, key)
}

// eventsOf returns the events that report the changes below a prefix after a revision.
func (l *Log) eventsOf(prefix string, since int64) []string {
	var all []string
	for _, c := range l.Changes {
		if c.Revision <= since || !strings.HasPrefix(c.Key, prefix) {
			continue
		}
		typ := client.Added
		switch {
		case c.Value == nil:
			typ = client.Deleted
		case l.At(c.Key, c.Revision-1) != nil:
			typ = client.Modified
		}
		all = append(all, eventOf(c.Revision, typ, c.Key))
	}
	return all
}

// compare reports events that are missing, duplicate, out of order or wrong. The changes of one revision may have
// any order.
func (w *watcher) compare(log *Log) []string {
	var found, told []string
	for i, e := range w.told {
		key := modelKey(e.Object.ModelType(), e.Object.ModelKey())
		told = append(told, eventOf(e.Revision, e.Type, key))
		if i > 0 && e.Revision < w.told[i-1].Revision {
			found = append(found, fmt.Sprintf("%s: revision %d comes after %d", w.name, e.Revision, w.told[i-1].Revision))
		}
		at := e.Revision
		if e.Type == client.Deleted {
			at--
		}
		if !sameObject(e.Object, log.At(key, at)) {
			found = append(found, fmt.Sprintf("%s: revision %d: %+v was told, the store had %s", w.name, e.Revision, e.Object, log.At(key, at)))
		}
	}
	if w.ended != nil {
		found = append(found, fmt.Sprintf("%s: ended: %v", w.name, w.ended))
	}
	wanted := log.eventsOf(w.prefix, w.since)
	count := map[string]int{}
	for _, text := range wanted {
		count[text]++
	}
	for _, text := range told {
		if count[text]--; count[text] < 0 {
			found = append(found, fmt.Sprintf("%s: told what did not happen, or twice: %s", w.name, text))
		}
	}
	for _, text := range wanted {
		if count[text] > 0 {
			found = append(found, fmt.Sprintf("%s: not told: %s", w.name, text))
		}
	}
	return slices.Compact(found)
}

// sameObject compares an object with a stored value, without links: an event has the links at the time when it was
// sent.
func sameObject(o contivmodel.Object, value []byte) bool {
	kind, _ := contivmodel.KindByType(o.ModelType())
	stored := kind.New()
	if json.Unmarshal(value, stored) != nil {
		return false
	}
	contivmodel.ClearLinks(o)
	contivmodel.ClearLinks(stored)
	return reflect.DeepEqual(o, stored)
}
