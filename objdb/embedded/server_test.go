package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestMain(m *testing.M) {
	os.Exit(testetcd.Main(m, map[string]func([]string) error{"member": serve}))
}

// serve runs a member, with a directory and the URLs of clients and peers, until standard input ends.
func serve(args []string) error {
	s, err := embedded.Start(context.Background(), embedded.Config{Dir: args[0], Name: "a", ClientURL: args[1], PeerURL: args[2], NoFsync: true, Log: testkit.Quiet()})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop(context.Background())
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// start starts a member that does not wait for its disk: the tests kill members, not the machine.
func start(t *testing.T, ctx context.Context, cfg embedded.Config) *embedded.Server {
	t.Helper()
	cfg.Log, cfg.NoFsync = testkit.Quiet(), true
	s, err := embedded.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testetcd.Stop(t, s) })
	return s
}

// connect returns a client whose requests must succeed.
func connect(t *testing.T, urls ...string) *objdb.DB {
	t.Helper()
	return testdb.Open(t, objdb.Config{Endpoints: urls})
}

// trying returns a client whose requests fail soon, to be retried.
func trying(t *testing.T, urls ...string) *objdb.DB {
	t.Helper()
	return testdb.Open(t, objdb.Config{Endpoints: urls, RequestTimeout: 2 * time.Second})
}

func has(t *testing.T, db *objdb.DB, key, want string) {
	t.Helper()
	if value := testdb.Value(t, db, key); value != want {
		t.Errorf("%s is %q, want %q", key, value, want)
	}
}

func TestAMemberKeepsItsDataOverARestart(t *testing.T) {
	cfg := embedded.Config{Dir: filepath.Join(t.TempDir(), "new", "etcd"), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL()}
	s := start(t, within(time.Minute), cfg)
	testetcd.Ready(t, s)
	db := connect(t, s.ClientURLs()...)
	testdb.Put(t, db, "/x/a", "1")

	testetcd.Stop(t, s)
	testetcd.Ready(t, start(t, within(time.Minute), cfg))
	has(t, db, "/x/a", "1")
}

// etcd itself would wait several seconds for each of them; a busy machine may be late once.
func TestStoppingDoesNotWaitForClientsThatWatch(t *testing.T) {
	var took []time.Duration
	for range 3 {
		took = append(took, stoppingWithAWatch(t))
		if took[len(took)-1] < 3*time.Second {
			return
		}
	}
	t.Errorf("stopping took %s", took)
}

func stoppingWithAWatch(t *testing.T) time.Duration {
	t.Helper()
	s := start(t, within(time.Minute), embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL()})
	testetcd.Ready(t, s)
	m := mirror.New(connect(t, s.ClientURLs()...), "/x/", func(mirror.Batch) {})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	if err := m.WaitRevision(within(time.Minute), 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	testetcd.Stop(t, s)
	took := time.Since(began)
	cancel()
	<-done
	return took
}

func TestAMemberSurvivesBeingKilledAtAnyMoment(t *testing.T) {
	dir, client, peer := t.TempDir(), testkit.FreeURL(), testkit.FreeURL()
	db := connect(t, client)
	// Killed while it starts, ever later, and then while it serves.
	for i, after := range []time.Duration{5, 20, 50, 100, 200, 400} {
		c := testetcd.StartChild(t, "member", dir, client, peer)
		<-time.After(after * time.Millisecond)
		c.Kill()
		if c.Failed != "" {
			t.Fatalf("start %d: %s", i, c.Failed)
		}
	}
	for i := range 3 {
		c := testetcd.StartChild(t, "member", dir, client, peer)
		c.Expect(t, "ready")
		if i > 0 {
			has(t, db, "/x/n", fmt.Sprint(i-1))
		}
		testdb.Put(t, db, "/x/n", fmt.Sprint(i))
		c.Kill()
	}
}

// The member is killed between creating the log and writing its first entry.
func TestAMemberKilledWhileItIsFoundedIsFoundedAgain(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL()}
	log := filepath.Join(cfg.Dir, "member", "wal")
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Create(zap.NewNop(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	testetcd.Ready(t, start(t, within(time.Minute), cfg))
}

// Members use TLS 1.3 with clients and with each other.
func TestAMemberSpeaksTheNewestTLSOnly(t *testing.T) {
	dir := t.TempDir()
	https := func() string { return strings.Replace(testkit.FreeURL(), "http:", "https:", 1) }
	cfg := embedded.Config{Dir: filepath.Join(dir, "etcd"), Name: "a", ClientURL: https(), PeerURL: https(),
		CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}
	testkit.WritePair(t, testkit.SelfSigned(t, "member"), cfg.CertFile, cfg.KeyFile)
	start(t, within(time.Minute), cfg)
	for _, at := range []string{cfg.ClientURL, cfg.PeerURL} {
		testkit.OnlyTLS13(t, strings.TrimPrefix(at, "https://"))
	}
}

// put writes a value; an error while there is no majority.
func put(db *objdb.DB, value string) error {
	_, _, err := db.Txn(context.Background(), objdb.Txn{Puts: []objdb.KV{{Key: "/x/a", Value: []byte(value)}}})
	return err
}

func TestThreeMembersServeWhileOneIsDead(t *testing.T) {
	peers := map[string]string{"a": testkit.FreeURL(), "b": testkit.FreeURL(), "c": testkit.FreeURL()}
	cfgs, members, urls := map[string]embedded.Config{}, map[string]*embedded.Server{}, []string{}
	for name, url := range peers {
		cfgs[name] = embedded.Config{Dir: t.TempDir(), Name: name, ClientURL: testkit.FreeURL(), PeerURL: url, Peers: peers}
		urls = append(urls, cfgs[name].ClientURL)
	}

	// The first one returns although it cannot be ready.
	members["a"] = start(t, within(500*time.Millisecond), cfgs["a"])
	select {
	case <-members["a"].Ready():
		t.Error("one of three is ready")
	default:
	}
	members["b"] = start(t, within(time.Minute), cfgs["b"])
	members["c"] = start(t, within(time.Minute), cfgs["c"])
	for _, m := range members {
		testetcd.Ready(t, m)
	}
	testdb.Put(t, connect(t, urls...), "/x/a", "1")

	db := trying(t, urls...)
	for _, name := range []string{"a", "b", "c"} { // one of them leads
		testetcd.Stop(t, members[name])
		testkit.Eventually(t, time.Minute, "writes go on without "+name, func() bool { return put(db, name) == nil })
		members[name] = start(t, within(time.Minute), cfgs[name])
		testetcd.Ready(t, members[name])
		has(t, connect(t, cfgs[name].ClientURL), "/x/a", name)
	}
}

func TestWrongConfigurationsAreRefusedWithTheCause(t *testing.T) {
	good := func() embedded.Config {
		return embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: "http://127.0.0.1:1", PeerURL: "http://127.0.0.1:2",
			Peers: map[string]string{"a": "http://127.0.0.1:2", "b": "http://127.0.0.1:3"}, Log: testkit.Quiet()}
	}
	for want, spoil := range map[string]func(*embedded.Config){
		"both are required":    func(c *embedded.Config) { c.Name = "" },
		"holds '='":            func(c *embedded.Config) { c.Name = "a=b" },
		"is not among them":    func(c *embedded.Config) { c.Name = "z" },
		"its peer URL is":      func(c *embedded.Config) { c.PeerURL = "http://127.0.0.1:9" },
		"have the same URL":    func(c *embedded.Config) { c.Peers["b"] = c.PeerURL },
		"must be http":         func(c *embedded.Config) { c.Peers["b"] = "ftp://127.0.0.1:3" },
		"client URL":           func(c *embedded.Config) { c.ClientURL = "localhost" },
		"etcd data directory:": func(c *embedded.Config) { c.Dir = "/proc/none" },
	} {
		cfg := good()
		cfg.Peers = maps.Clone(cfg.Peers)
		spoil(&cfg)
		if _, err := embedded.Start(context.Background(), cfg); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
}

func TestADataDirectoryIsNotTakenOverByAnotherCluster(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Log: testkit.Quiet()}
	s := start(t, within(time.Minute), cfg)
	testetcd.Ready(t, s)
	testetcd.Stop(t, s)
	cfg.Peers = map[string]string{"a": cfg.PeerURL, "b": testkit.FreeURL()}
	if _, err := embedded.Start(context.Background(), cfg); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "belongs to member") {
		t.Errorf("got %v", err)
	}
}

// A single member is the only one that has its peer URL recorded, so the URL may change.
func TestAMemberThatIsAloneMayMove(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Log: testkit.Quiet()}
	for range 2 {
		s := start(t, within(time.Minute), cfg)
		testetcd.Ready(t, s)
		testetcd.Stop(t, s)
		cfg.ClientURL, cfg.PeerURL = testkit.FreeURL(), testkit.FreeURL()
	}
}

func TestDamagedDataIsAnError(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Log: testkit.Quiet()}
	s := start(t, within(time.Minute), cfg)
	testetcd.Ready(t, s)
	testetcd.Stop(t, s)
	log := filepath.Join(cfg.Dir, "member", "wal", "0000000000000000-0000000000000000.wal")
	if err := os.WriteFile(log, bytes.Repeat([]byte{7}, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(t.Context(), cfg); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), cfg.Dir) {
		t.Errorf("got %v", err)
	}
}

func TestAPortInUseIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = embedded.Start(context.Background(), embedded.Config{
		Dir: t.TempDir(), Name: "a", ClientURL: "http://" + l.Addr().String(), PeerURL: testkit.FreeURL(), Log: testkit.Quiet(),
	})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

func TestAWatchGoesOnAtAnotherMemberWhenItsOwnStops(t *testing.T) {
	members := testetcd.NewMembers(t, 3, 0)
	var urls []string
	for _, m := range members {
		urls = append(urls, m.ClientURLs()...)
	}
	// The client begins with the first member, and learns the others.
	watcher, err := clientv3.New(clientv3.Config{Endpoints: urls[:1], Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	ctx, cancel := context.WithCancel(within(time.Minute))
	defer cancel()
	events := watcher.Watch(ctx, "/x/key", clientv3.WithCreatedNotify())
	<-events
	watcher.SetEndpoints(urls...)
	testetcd.Stop(t, members[0])
	testdb.Put(t, connect(t, urls[1:]...), "/x/key", "after")
	for r := range events {
		if r.Err() != nil {
			t.Fatalf("the watch has ended: %v", r.Err())
		}
		if len(r.Events) > 0 {
			return
		}
	}
	t.Fatal("the watch has ended without a word")
}
