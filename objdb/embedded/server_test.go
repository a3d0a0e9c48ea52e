package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// memberVariable makes the test binary a member that a test can kill.
const memberVariable = "EMBEDDED_TEST_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(memberVariable) != "" {
		if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs a member until standard input ends.
func serve(dir, client, peer string) error {
	s, err := embedded.Start(context.Background(), embedded.Config{Dir: dir, Name: "a", ClientURL: client, PeerURL: peer, Log: testkit.Quiet()})
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

func start(t *testing.T, ctx context.Context, cfg embedded.Config) *embedded.Server {
	t.Helper()
	cfg.Log = testkit.Quiet()
	s, err := embedded.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *embedded.Server) {
	t.Helper()
	if err := s.Stop(within(20 * time.Second)); err != nil {
		t.Error(err)
	}
}

func ready(t *testing.T, s *embedded.Server) {
	t.Helper()
	select {
	case <-s.Ready():
	case err := <-s.Err():
		t.Fatal(err)
	case <-time.After(20 * time.Second):
		t.Fatal("member is not ready")
	}
}

func connect(t *testing.T, urls ...string) *objdb.DB {
	t.Helper()
	db, err := objdb.Open(objdb.Config{Endpoints: urls, Log: testkit.Quiet(), RequestTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func put(db *objdb.DB, key, value string) error {
	_, _, err := db.Txn(context.Background(), objdb.Txn{Puts: []objdb.KV{{Key: key, Value: []byte(value)}}})
	return err
}

func mustPut(t *testing.T, db *objdb.DB, key, value string) {
	t.Helper()
	if err := put(db, key, value); err != nil {
		t.Fatal(err)
	}
}

func has(t *testing.T, db *objdb.DB, key, want string) {
	t.Helper()
	kv, err := db.Get(context.Background(), key)
	if err != nil || string(kv.Value) != want {
		t.Errorf("%s is %q, %v; want %q", key, kv.Value, err, want)
	}
}

func TestAMemberKeepsItsDataOverARestart(t *testing.T) {
	cfg := embedded.Config{Dir: filepath.Join(t.TempDir(), "new", "etcd"), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL()}
	s := start(t, within(20*time.Second), cfg)
	ready(t, s)
	db := connect(t, s.ClientURLs()...)
	mustPut(t, db, "/x/a", "1")

	began := time.Now()
	stop(t, s)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %s", took)
	}
	ready(t, start(t, within(20*time.Second), cfg))
	has(t, db, "/x/a", "1")
}

func TestStoppingDoesNotWaitForClientsThatWatch(t *testing.T) {
	s := start(t, within(20*time.Second), embedded.Config{Dir: t.TempDir(), Name: "a", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL()})
	ready(t, s)
	m := mirror.New(connect(t, s.ClientURLs()...), "/x/", func(mirror.Batch) {})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	if err := m.WaitRevision(within(10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stop(t, s)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %s", took)
	}
	cancel()
	<-done
}

func TestAMemberSurvivesBeingKilledAtAnyMoment(t *testing.T) {
	dir, client, peer := t.TempDir(), testkit.FreeURL(), testkit.FreeURL()
	db := connect(t, client)
	// Killed while it starts, ever later, and then while it serves.
	for i, after := range []time.Duration{5, 20, 50, 100, 200, 400} {
		c := startChild(t, dir, client, peer)
		<-time.After(after * time.Millisecond)
		c.kill()
		if c.failed != "" {
			t.Fatalf("start %d: %s", i, c.failed)
		}
	}
	for i := range 3 {
		c := startChild(t, dir, client, peer)
		c.expect(t, "ready")
		if i > 0 {
			has(t, db, "/x/n", fmt.Sprint(i-1))
		}
		mustPut(t, db, "/x/n", fmt.Sprint(i))
		c.kill()
	}
}

// The moment between creating the log and writing the first entry to it.
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
	ready(t, start(t, within(20*time.Second), cfg))
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
	members["b"] = start(t, within(20*time.Second), cfgs["b"])
	members["c"] = start(t, within(20*time.Second), cfgs["c"])
	for _, m := range members {
		ready(t, m)
	}
	db := connect(t, urls...)
	mustPut(t, db, "/x/a", "1")

	for _, name := range []string{"a", "b", "c"} { // one of them leads
		stop(t, members[name])
		began := time.Now()
		for put(db, "/x/a", name) != nil {
			if time.Since(began) > 5*time.Second {
				t.Fatalf("no writes while %s is away", name)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("writes took %s to go on without %s", took, name)
		}
		members[name] = start(t, within(20*time.Second), cfgs[name])
		ready(t, members[name])
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
	s := start(t, within(20*time.Second), cfg)
	ready(t, s)
	stop(t, s)
	cfg.Peers = map[string]string{"a": cfg.PeerURL, "b": testkit.FreeURL()}
	if _, err := embedded.Start(context.Background(), cfg); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "belongs to member") {
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

// child is a member in a process of its own.
type child struct {
	cmd    *exec.Cmd
	lines  chan string
	failed string
}

func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 10)}
	c.cmd.Env = append(os.Environ(), memberVariable+"=1")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case line := <-c.lines:
		if line != want {
			t.Fatalf("child says %q, want %q", line, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("child did not say %q", want)
	}
}

// kill ends the child as kill -9 does and keeps its complaint, if it had one.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL) // may be gone already
	for line := range c.lines {
		if strings.HasPrefix(line, "failed") {
			c.failed = line
		}
	}
	_ = c.cmd.Wait() // says that it was killed
}

func TestAWatchGoesOnAtAnotherMemberWhenItsOwnStops(t *testing.T) {
	var urls []string
	peers := map[string]string{}
	configs := make([]embedded.Config, 3)
	for i := range configs {
		configs[i] = embedded.Config{Dir: t.TempDir(), Name: fmt.Sprint("m", i), ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Peers: peers}
		peers[configs[i].Name] = configs[i].PeerURL
		urls = append(urls, configs[i].ClientURL)
	}
	members := make([]*embedded.Server, 3)
	for i := range members {
		members[i] = start(t, within(time.Millisecond), configs[i])
	}
	for _, m := range members {
		ready(t, m)
	}
	// The client begins with the first member, and knows the others.
	watcher, err := clientv3.New(clientv3.Config{Endpoints: urls[:1], Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	ctx, cancel := context.WithCancel(within(20 * time.Second))
	defer cancel()
	events := watcher.Watch(ctx, "/x/key", clientv3.WithCreatedNotify())
	<-events
	watcher.SetEndpoints(urls...)
	stop(t, members[0])
	mustPut(t, connect(t, urls[1:]...), "/x/key", "after")
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
