package ovsdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

type bridgeRow struct {
	UUID        UUID              `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	FailMode    *string           `ovsdb:"fail_mode"`
	Ports       []UUID            `ovsdb:"ports"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// journal writes down what a table reports.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(c Change[bridgeRow]) {
	name := func(b *bridgeRow) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprint(b.Name, b.ExternalIDs)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, name(c.Old)+" > "+name(c.New))
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	slices.Sort(lines)
	return lines
}

func newClient(t *testing.T, s *server, tables ...Watched) *Client {
	t.Helper()
	client, err := New(Config{Target: s.target()}, tables...)
	if err != nil {
		t.Fatal(err)
	}
	runClient(t, client)
	return client
}

func names(table *Table[bridgeRow]) string {
	var names []string
	for _, b := range table.Rows() {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestTheCopyFollowsTheServer(t *testing.T) {
	s := startServer(t)
	s.vsctl("add-br", "br1")
	var events journal
	bridges := NewTable("Bridge", events.note)
	newClient(t, s, bridges)
	if got := names(bridges); got != "br1" {
		t.Errorf("snapshot: %s", got)
	}
	s.vsctl("add-br", "br2", "--", "set", "Bridge", "br1", "external_ids:x=1", "fail_mode=secure")
	testkit.Eventually(t, patience, "both changes of the transaction", func() bool { return names(bridges) == "br1 br2" })
	br1, ok := bridges.Find(func(b bridgeRow) bool { return b.Name == "br1" })
	if !ok || br1.FailMode == nil || *br1.FailMode != "secure" || len(br1.Ports) != 1 {
		t.Errorf("br1: %+v", br1)
	}
	if again, ok := bridges.Get(br1.UUID); !ok || again.Name != "br1" {
		t.Errorf("by uuid: %+v", again)
	}
	s.vsctl("del-br", "br2")
	testkit.Eventually(t, patience, "br2 is gone", func() bool { return names(bridges) == "br1" })
	want := []string{"- > br1map[]", "- > br2map[]", "br1map[] > br1map[x:1]", "br2map[] > -"}
	testkit.Eventually(t, patience, "all events", func() bool { return len(want) <= len(events.peek()) })
	if diff := cmp.Diff(want, events.take()); diff != "" {
		t.Error(diff)
	}
}

func (j *journal) peek() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func TestAfterTransactTheCopyHasWhatWasWritten(t *testing.T) {
	s := startServer(t)
	bridges := NewTable[bridgeRow]("Bridge", nil)
	client := newClient(t, s, bridges)
	for i := range 200 {
		results, err := client.Transact(within(t),
			Insert("Bridge", "b", Row{"name": fmt.Sprint("br", i)}),
			Mutate("Open_vSwitch", All(), Mutation{"bridges", "insert", UUID("b")}))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := bridges.Get(results[0].UUID); !ok {
			t.Fatalf("transaction %d: answered before the copy had it", i)
		}
	}
}

func TestAfterAKilledServerOnlyDifferencesAreReported(t *testing.T) {
	s := startServer(t)
	s.vsctl("add-br", "stays", "--", "add-br", "goes", "--", "add-br", "changes")
	var events journal
	bridges := NewTable("Bridge", events.note)
	client := newClient(t, s, bridges)
	events.take()

	s.kill()
	testkit.Eventually(t, patience, "the client has noticed", func() bool { return !client.Connected() })
	if _, err := client.Transact(within(t), Comment("x")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("transaction without a server: %v", err)
	}
	if got := names(bridges); got != "changes goes stays" {
		t.Errorf("copy without a server: %s", got)
	}
	s.start()
	s.vsctl("del-br", "goes", "--", "add-br", "comes", "--", "set", "Bridge", "changes", "external_ids:x=1")
	testkit.Eventually(t, patience, "the client has come back", func() bool { return client.Connected() && names(bridges) == "changes comes stays" })
	want := []string{"- > comesmap[]", "changesmap[] > changesmap[x:1]", "goesmap[] > -"}
	testkit.Eventually(t, patience, "all events", func() bool { return len(want) <= len(events.peek()) })
	if diff := cmp.Diff(want, events.take()); diff != "" {
		t.Error(diff)
	}
	if _, err := client.Transact(within(t), Comment("x")); err != nil {
		t.Errorf("transaction after the restart: %v", err)
	}
}

func TestTheClientStartsWithoutAServer(t *testing.T) {
	s := startServer(t)
	s.kill()
	bridges := NewTable[bridgeRow]("Bridge", nil)
	client, err := New(Config{Target: s.target()}, bridges)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	s.start()
	if err := client.Wait(within(t), func() (bool, error) { return client.Connected(), nil }); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("Run returned %v", err)
	}
}

func TestWaitEndsWithTheConditionItsErrorOrItsContext(t *testing.T) {
	s := startServer(t)
	bridges := NewTable[bridgeRow]("Bridge", nil)
	client := newClient(t, s, bridges)
	found := make(chan error, 1)
	go func() {
		found <- client.Wait(context.Background(), func() (bool, error) { return names(bridges) == "br7", nil })
	}()
	s.vsctl("add-br", "br7")
	if err := <-found; err != nil {
		t.Error(err)
	}
	problem := fmt.Errorf("port refused")
	if err := client.Wait(within(t), func() (bool, error) { return false, problem }); err != problem {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := client.Wait(ctx, func() (bool, error) { return false, nil }); err != context.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
}

func TestTheSchemaIsCheckedBeforeAnythingIsWatched(t *testing.T) {
	s := startServer(t)
	type missing struct {
		Nonsense string `ovsdb:"nonsense"`
	}
	type other struct {
		Ports string `ovsdb:"ports"`
	}
	for _, c := range []struct {
		table Watched
		want  string
	}{
		{NewTable[missing]("Bridge", nil), "column Bridge.nonsense: not in the schema"},
		{NewTable[missing]("Bridges", nil), "table Bridges: not in the schema"},
		{NewTable[other]("Bridge", nil), "column Bridge.ports: server has set of uuid, we expect atom of string"},
	} {
		client, err := New(Config{Target: s.target()}, c.table)
		if err != nil {
			t.Fatal(err)
		}
		synced, err := client.session(within(t))
		if synced || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	type broken struct {
		Channel chan int `ovsdb:"name"`
	}
	if _, err := New(Config{}, NewTable[broken]("Bridge", nil)); err == nil {
		t.Error("a struct without wire form was accepted")
	}
}
