// Package testetcd gives the store's tests real etcds: members in this process,
// Debian's etcd as a process that can be stopped and killed, a proxy that parts
// clients from them, and the test program itself as another process.
package testetcd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
)

// largeTxns has a process take as much in a transaction as embedded members do.
const largeTxns = "--max-txn-ops=5120"

// New starts a store for this test and returns its URL. It is a process that takes as much in a
// transaction as an embedded member: a member is slowed down by the race detector. What is
// measured is a member.
func New(t testing.TB) string {
	t.Helper()
	if _, measured := t.(*testing.B); measured {
		return NewMember(t)
	}
	return NewProcess(t, largeTxns).URL
}

// NewMember starts an embedded member for this test and returns its URL.
func NewMember(t testing.TB) string {
	t.Helper()
	return NewSmall(t, 0)
}

// NewSmall is NewMember with a quota in bytes; 0 is the default.
func NewSmall(t testing.TB, quota int64) string {
	t.Helper()
	return NewMembers(t, 1, quota)[0].ClientURLs()[0]
}

// NewMembers starts a store of several embedded members, with a quota each, for
// this test. They do not wait for the disk, except when something is measured.
func NewMembers(t testing.TB, count int, quota int64) []*embedded.Server {
	t.Helper()
	peers := map[string]string{}
	for i := range count {
		peers[fmt.Sprint("m", i)] = testkit.FreeURL()
	}
	_, measured := t.(*testing.B)
	var members []*embedded.Server
	for name, peer := range peers {
		at, cancel := context.WithCancel(context.Background())
		cancel() // one alone would wait for the others
		s, err := embedded.Start(at, embedded.Config{
			Dir: t.TempDir(), Name: name, ClientURL: testkit.FreeURL(), PeerURL: peer, Peers: peers, Quota: quota,
			NoFsync: !measured, Log: testkit.Quiet(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { Stop(t, s) })
		members = append(members, s)
	}
	for _, s := range members {
		Ready(t, s)
	}
	return members
}

// start-up and stop of a member take this long on a machine that is busy.
const memberTime = time.Minute

// Ready waits until a member serves.
func Ready(t testing.TB, s *embedded.Server) {
	t.Helper()
	select {
	case <-s.Ready():
	case err := <-s.Err():
		t.Fatal(err)
	case <-time.After(memberTime):
		t.Fatal("embedded etcd is not ready")
	}
}

// Stop stops a member; it may have been stopped before.
func Stop(t testing.TB, s *embedded.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), memberTime)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// Process is Debian's etcd as a process of its own, for outages. It does not wait for the disk,
// except when something is measured: what it has promised outlives its being killed.
type Process struct {
	t       testing.TB
	options []string
	dir     string
	token   string
	URL     string
	peer    string
	cmd     *exec.Cmd
	output  bytes.Buffer
}

// NewProcess starts an etcd that ends with the test; the options are more than those it has anyway.
func NewProcess(t testing.TB, options ...string) *Process {
	t.Helper()
	if _, measured := t.(*testing.B); !measured {
		options = append(options, "--unsafe-no-fsync")
	}
	p := &Process{t: t, options: options, dir: t.TempDir(), token: "first", URL: testkit.FreeURL(), peer: testkit.FreeURL()}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the process, again on its data after Kill, and waits until it answers.
func (p *Process) Start() {
	p.t.Helper()
	p.cmd = exec.Command("etcd", append([]string{"--name=a", "--data-dir=" + p.dir, "--logger=zap", "--log-level=error",
		"--listen-client-urls=" + p.URL, "--advertise-client-urls=" + p.URL,
		"--listen-peer-urls=" + p.peer, "--initial-advertise-peer-urls=" + p.peer, "--initial-cluster=a=" + p.peer, "--initial-cluster-token=" + p.token,
		"--heartbeat-interval=100", "--election-timeout=500"}, p.options...)...)
	p.cmd.Stderr, p.cmd.Stdout = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{p.URL}, Logger: zap.NewNop()})
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	testkit.Eventually(p.t, 20*time.Second, "etcd process answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		status, err := c.Status(ctx, p.URL)
		return err == nil && status.Leader != 0
	})
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	p.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // says that it was killed
	p.cmd = nil
}

// Backup returns a directory with what the store holds now. The process is
// restarted for it.
func (p *Process) Backup() string {
	p.t.Helper()
	p.Kill()
	dir := p.t.TempDir()
	p.copy(dir, p.dir)
	p.Start()
	return dir
}

// Restore kills the process and starts it on a backup: it goes back.
func (p *Process) Restore(backup string) {
	p.t.Helper()
	p.Kill()
	p.dir = p.t.TempDir()
	p.copy(p.dir, backup)
	p.Start()
}

// Replace kills the process and starts an empty one in its place. With the token
// of its predecessor it has the predecessor's cluster id.
func (p *Process) Replace(token string) {
	p.t.Helper()
	p.Kill()
	p.dir, p.token = p.t.TempDir(), token
	p.Start()
}

func (p *Process) copy(to, from string) {
	p.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		p.t.Fatal(err)
	}
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Run runs a function that ends with its context, for the time of the test.
func Run(t testing.TB, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
