package objdb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/fault"
)

// eventually polls until ok or the deadline.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		pause(context.Background(), 5*time.Millisecond)
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func freeURL(t testing.TB) string { return fmt.Sprintf("http://127.0.0.1:%d", freePort(t)) }

// quiet is a log entry for the many expected complaints of tests about outages.
func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// newStore starts an embedded member for this test and returns its URL.
func newStore(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := embedded.Start(ctx, embedded.Config{
		Dir: t.TempDir(), Name: "alone", ClientURL: freeURL(t), PeerURL: freeURL(t), Log: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case <-ctx.Done():
		t.Fatal("embedded etcd is not ready")
	}
	return s.ClientURLs()[0]
}

// open connects to a store for the time of the test.
func open(t testing.TB, cfg Config) *DB {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = quiet()
	}
	db, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// newDB is a connection to a store of its own.
func newDB(t testing.TB) *DB {
	t.Helper()
	return open(t, Config{Endpoints: []string{newStore(t)}})
}

// process is Debian's etcd as a process of its own, for outages.
type process struct {
	t      testing.TB
	dir    string
	URL    string
	peer   string
	cmd    *exec.Cmd
	output bytes.Buffer
}

func newProcess(t testing.TB) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), URL: freeURL(t), peer: freeURL(t)}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command("etcd", "--name=a", "--data-dir="+p.dir, "--logger=zap", "--log-level=error",
		"--listen-client-urls="+p.URL, "--advertise-client-urls="+p.URL,
		"--listen-peer-urls="+p.peer, "--initial-advertise-peer-urls="+p.peer, "--initial-cluster=a="+p.peer,
		"--heartbeat-interval=100", "--election-timeout=500")
	p.cmd.Stderr, p.cmd.Stdout = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	db, err := Open(Config{Endpoints: []string{p.URL}, Log: quiet()})
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	eventually(p.t, 20*time.Second, "etcd process answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := db.Ping(ctx)
		return err == nil || fault.Is(err, fault.Denied)
	})
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // says that it was killed
	p.cmd = nil
}

func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// put writes one key and returns the revision.
func put(t testing.TB, db *DB, key, value string) int64 {
	t.Helper()
	rev, _, err := db.Txn(context.Background(), Txn{Puts: []KV{{Key: key, Value: []byte(value)}}})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func del(t testing.TB, db *DB, keys ...string) int64 {
	t.Helper()
	rev, _, err := db.Txn(context.Background(), Txn{Deletes: keys})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// run runs a function that ends with its context, for the time of the test.
func run(t testing.TB, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
