package daemon

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/test/testkit"
)

// watch follows a collection; the channel gets the lines and then how the
// stream ended.
func (n *node) watch(query string) <-chan string {
	n.Helper()
	resp, err := http.Get(n.url + "/api/v1/" + query)
	if err != nil {
		n.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		n.Fatalf("watch: %s", resp.Status)
	}
	lines := make(chan string, 1000)
	go func() {
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		for {
			line, err := in.ReadString('\n')
			if err == io.EOF && line == "" {
				lines <- "clean end"
				return
			}
			if err != nil {
				lines <- err.Error()
				return
			}
			lines <- line
		}
	}()
	n.Cleanup(func() { resp.Body.Close() })
	return lines
}

// tellTime is less than the time between two bookmarks: a line that is only sent with the next one arrives later.
const tellTime = 20 * time.Second

// tells requires the next line to contain a text, soon.
func (n *node) tells(lines <-chan string, want string) {
	n.Helper()
	select {
	case line := <-lines:
		if !strings.Contains(line, want) {
			n.Fatalf("told %s, want %s", line, want)
		}
	case <-time.After(tellTime):
		n.Fatalf("%s is not told within %s", want, tellTime)
	}
}

func TestAFollowerPassesAWatchOnAsItComes(t *testing.T) {
	storetest.Open(t)
	a, b := run(t), run(t)
	_, others := leader(t, a, b)
	follower := others[0]
	lines := follower.watch("tenants/?watch=true")
	follower.tells(lines, `"ADDED"`)
	follower.tells(lines, `"BOOKMARK"`)
	for range 5 {
		a.ok("POST", "/api/v1/tenants/red/", `{"tenantName":"red"}`)
		follower.tells(lines, `"ADDED"`)
		b.ok("DELETE", "/api/v1/tenants/red/", "")
		follower.tells(lines, `"DELETED"`)
	}
}

func TestWatchesEndWhenTheLeaderIsDeposed(t *testing.T) {
	storetest.Open(t)
	a, b := run(t), run(t)
	first, others := leader(t, a, b)
	direct, through := first.watch("rules/?watch=true"), others[0].watch("rules/?watch=true")
	first.tells(direct, "BOOKMARK")
	first.tells(through, "BOOKMARK")
	usurp(t)
	_, _, _ = first.try("POST", "/api/v1/tenants/red/", `{"tenantName":"red"}`) // so that it finds out
	first.tells(direct, "clean end")
	first.tells(through, "clean end")
}

func TestNobodyWaitsForWatchesWhenTheLeaderStops(t *testing.T) {
	storetest.Open(t)
	a, b := run(t), run(t)
	first, others := leader(t, a, b)
	direct, through := first.watch("rules/?watch=true"), others[0].watch("rules/?watch=true")
	first.tells(direct, "BOOKMARK")
	first.tells(through, "BOOKMARK")
	first.shut()
	first.tells(direct, "clean end") // sent before shut returned, read when the client runs
	first.tells(through, "clean end")
	testkit.Eventually(t, time.Minute, "the other leads", others[0].leads)
}

// A stream outlives the limits for requests: those of its connection do not
// apply to it, on either side of a follower.
func TestAWatchLastsLongerThanARequestMay(t *testing.T) {
	storetest.Open(t)
	short := func(c *Config) { c.requestLimit = time.Second }
	a, b := run(t, short), run(t, short)
	first, others := leader(t, a, b)
	direct, through := first.watch("tenants/?watch=true&tenant=red"), others[0].watch("tenants/?watch=true&tenant=red")
	first.tells(direct, "BOOKMARK")
	first.tells(through, "BOOKMARK")
	late := time.NewTimer(2500 * time.Millisecond)
	defer late.Stop()
	select {
	case <-late.C:
	case line := <-direct:
		t.Fatalf("told %s", line)
	case line := <-through:
		t.Fatalf("told %s through the follower", line)
	}
	first.ok("POST", "/api/v1/tenants/red/", `{"tenantName":"red"}`)
	first.tells(direct, "ADDED")
	first.tells(through, "ADDED")
}
