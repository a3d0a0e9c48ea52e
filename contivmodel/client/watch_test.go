package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// stream answers watch requests, one script after the other; a script's lines
// are sent at once and then the connection ends.
func stream(t *testing.T, scripts ...string) (*Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		i := len(asked)
		asked = append(asked, r.URL.String())
		mu.Unlock()
		switch {
		case i >= len(scripts):
			<-r.Context().Done()
		case strings.HasPrefix(scripts[i], "410"):
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, scripts[i][4:])
		default:
			fmt.Fprint(w, scripts[i])
		}
	})
	return connectTo(t, Config{URLs: []string{url}}), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

func event(typ string, revision int64, tenant string) string {
	if tenant == "" {
		return fmt.Sprintf(`{"type":%q,"revision":%d}`+"\n", typ, revision)
	}
	return fmt.Sprintf(`{"type":%q,"revision":%d,"object":{"key":%q,"tenantName":%q}}`+"\n", typ, revision, tenant, tenant)
}

// seen follows a watch until it has delivered a number of events.
func seen(t *testing.T, c *Client, number int) ([]string, error) {
	t.Helper()
	kind, _ := contivmodel.KindByType("tenant")
	var events []string
	enough := errors.New("enough")
	err := c.Watch(t.Context(), kind, "blue", func(e Event) error {
		text := fmt.Sprintf("%s@%d", e.Type, e.Revision)
		if e.Object != nil {
			text += " " + e.Key
		}
		if events = append(events, text); len(events) == number {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return events, err
}

// One transaction may change several objects, and the connection break between two of them: none is lost or
// delivered twice.
func TestAWatchGoesOnWhereItBroke(t *testing.T) {
	c, asked := stream(t,
		event(Added, 3, "blue")+event(Bookmark, 7, "")+event(Modified, 9, "blue"),
		"", // a server that accepts and goes away
		event(Modified, 9, "blue")+event(Modified, 9, "red")+event(Deleted, 12, "blue"))
	events, err := seen(t, c, 5)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ADDED@3 blue", "BOOKMARK@7", "MODIFIED@9 blue", "MODIFIED@9 red", "DELETED@12 blue"}, events); diff != "" {
		t.Error(diff)
	}
	const first, again = "/api/v1/tenants/?tenant=blue&watch=true", "/api/v1/tenants/?revision=8&tenant=blue&watch=true"
	if diff := cmp.Diff([]string{first, again, again}, asked()); diff != "" {
		t.Error(diff)
	}
}

// A server that has not reached the last revision yet sends bookmarks.
func TestABookmarkFromBeforeTheBreakDoesNotMakeAWatchForget(t *testing.T) {
	c, _ := stream(t,
		event(Bookmark, 7, "")+event(Modified, 9, "blue"),
		event(Bookmark, 8, "")+event(Modified, 9, "blue")+event(Modified, 9, "red"))
	events, err := seen(t, c, 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"BOOKMARK@7", "MODIFIED@9 blue", "BOOKMARK@8", "MODIFIED@9 red"}, events); diff != "" {
		t.Error(diff)
	}
}

// A connection may break within a line. That line is not delivered: it is sent again, whole.
func TestAWatchGoesOnWhenItBreaksWithinALine(t *testing.T) {
	for name, part := range map[string]string{"half of it": event(Modified, 9, "blue")[:30], "all but its end": strings.TrimSuffix(event(Modified, 9, "blue"), "\n")} {
		c, asked := stream(t, event(Bookmark, 7, "")+part, event(Modified, 9, "blue"))
		events, err := seen(t, c, 2)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{"BOOKMARK@7", "MODIFIED@9 blue"}, events); diff != "" || len(asked()) != 2 {
			t.Errorf("%s: %d connections, %s", name, len(asked()), diff)
		}
	}
}

// A deleted object may be unreadable; then the event has its key only.
func TestDeletionsOfTwoObjectsThatNobodyCouldReadAreBothDelivered(t *testing.T) {
	deleted := func(key string) string {
		return fmt.Sprintf(`{"type":"DELETED","revision":9,"object":{"key":%q}}`+"\n", key)
	}
	c, _ := stream(t, event(Bookmark, 7, "")+deleted("blue")+deleted("red")+event(Bookmark, 9, ""))
	events, err := seen(t, c, 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"BOOKMARK@7", "DELETED@9 blue", "DELETED@9 red", "BOOKMARK@9"}, events); diff != "" {
		t.Error(diff)
	}
}

func TestAWatchThatBreaksBeforeItsBookmarkFails(t *testing.T) {
	c, _ := stream(t, event(Added, 3, "blue"))
	if _, err := seen(t, c, 9); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestARevisionThatIsGoneEndsAWatch(t *testing.T) {
	c, _ := stream(t, event(Bookmark, 7, ""), "410 revision 7 is too old")
	if _, err := seen(t, c, 9); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v", err)
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	c, _ := stream(t)
	ctx, cancel := context.WithCancel(t.Context())
	kind, _ := contivmodel.KindByType("tenant")
	done := make(chan error)
	go func() { done <- c.Watch(ctx, kind, "", func(Event) error { return nil }) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLinesThatAreNoEventsEndAWatch(t *testing.T) {
	c, _ := stream(t, "<html>\n")
	if _, err := seen(t, c, 1); err == nil || !strings.Contains(err.Error(), "answer cannot be understood") {
		t.Errorf("got %v", err)
	}
}
