package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// trio is a cluster of three members, a, b and c.
type trio struct {
	cfgs    map[string]embedded.Config
	members map[string]*embedded.Server
}

func newTrio(t *testing.T) trio {
	t.Helper()
	peers := map[string]string{"a": testkit.FreeURL(), "b": testkit.FreeURL(), "c": testkit.FreeURL()}
	c := trio{map[string]embedded.Config{}, map[string]*embedded.Server{}}
	soon, cancel := context.WithCancel(t.Context())
	cancel() // a single member would wait for the others
	for name, url := range peers {
		c.cfgs[name] = embedded.Config{Dir: t.TempDir(), Name: name, ClientURL: testkit.FreeURL(), PeerURL: url, Peers: peers, NoFsync: true}
		c.members[name] = start(t, soon, c.cfgs[name])
	}
	for _, m := range c.members {
		testetcd.Ready(t, m)
	}
	return c
}

func (c trio) start(t *testing.T, name string) {
	t.Helper()
	c.members[name] = start(t, within(time.Minute), c.cfgs[name])
	testetcd.Ready(t, c.members[name])
}

// client connects to a and b.
func (c trio) client(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.cfgs["a"].ClientURL, c.cfgs["b"].ClientURL}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The operations page describes how to replace a member with lost or damaged data.
func TestLongAMemberThatIsLostIsReplaced(t *testing.T) {
	testkit.TakesLong(t)
	c := newTrio(t)
	client := c.client(t)
	testdb.Put(t, connect(t, client.Endpoints()...), "/x/a", "1")
	testetcd.Stop(t, c.members["c"])
	if err := os.RemoveAll(filepath.Join(c.cfgs["c"].Dir, "member")); err != nil {
		t.Fatal(err)
	}
	refused := func(when, want string) {
		t.Helper()
		cfg := c.cfgs["c"]
		cfg.Log = testkit.Quiet()
		if s, err := embedded.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			if s != nil {
				testetcd.Stop(t, s)
			}
			t.Fatalf("%s: %v; want ...%s...", when, err, want)
		}
	}
	refused("without its data", "has already been bootstrapped")

	var old *etcdserverpb.Member
	list, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.Name == "c" {
			old = m
		}
	}
	testkit.Eventually(t, time.Minute, "it is removed", func() bool { // not before the others have been connected for five seconds
		_, err = client.MemberRemove(t.Context(), old.ID)
		return err == nil
	})
	refused("removed", "etcdctl member add c --peer-urls="+c.cfgs["c"].PeerURL)
	testkit.Eventually(t, time.Minute, "it is added", func() bool {
		_, err = client.MemberAdd(t.Context(), old.PeerURLs)
		return err == nil
	})
	c.start(t, "c")
	has(t, connect(t, c.cfgs["c"].ClientURL), "/x/a", "1")
	testetcd.Stop(t, c.members["c"])
	c.start(t, "c")
	testetcd.Stop(t, c.members["a"]) // without a vote of c nothing can be written
	testdb.Put(t, connect(t, c.cfgs["b"].ClientURL, c.cfgs["c"].ClientURL), "/x/a", "2")
}

// farBehind is more log entries than are sent to a member one by one, see snapshotEntries.
const farBehind = 4500

// After a member has received the whole store, its log does not continue from its previous entries.
func TestLongAMemberThatWasSentTheStoreStartsAgain(t *testing.T) {
	testkit.TakesLong(t)
	c := newTrio(t)
	client := c.client(t)
	for round := range 2 { // receives the store, and then restarts with it
		testetcd.Stop(t, c.members["c"])
		var writers errgroup.Group
		writers.SetLimit(32)
		for i := range farBehind {
			writers.Go(func() error {
				_, err := client.Put(t.Context(), fmt.Sprint("/x/", i%100), fmt.Sprint(round))
				return err
			})
		}
		if err := writers.Wait(); err != nil {
			t.Fatal(err)
		}
		c.start(t, "c")
		if _, err := client.Put(t.Context(), "/x/0", "after"); err != nil {
			t.Fatal(err)
		}
		has(t, connect(t, c.cfgs["c"].ClientURL), "/x/0", "after") // it has caught up
		received, err := filepath.Glob(filepath.Join(c.cfgs["c"].Dir, "member", "snap", "*.snap"))
		if err != nil || len(received) == 0 {
			t.Fatalf("it was not sent the store: %v", err)
		}
	}
}
