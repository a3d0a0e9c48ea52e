// Package testetcd starts real etcds for the store's tests: members in this process, Debian's etcd as a process
// that can be stopped and killed, a proxy that interrupts connections of clients, and the test program itself as
// another process.
package testetcd

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
)

// New starts a store for this test and returns its URL. It is a process with the transaction limits of an embedded
// member: the race detector slows down a member. For benchmarks it is a member.
func New(t testing.TB) string {
	t.Helper()
	if _, measured := t.(*testing.B); measured {
		return NewMember(t)
	}
	return NewProcess(t, etcdtest.LargeTxns).URL
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

// NewMembers starts a store of several embedded members, with a quota each, for this test. They do not wait for
// the disk, except in benchmarks.
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
		cancel() // a single member would wait for the others
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

// memberTime is the time limit for starting and stopping a member on a busy machine.
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

// Stop stops a member, unless it is stopped already.
func Stop(t testing.TB, s *embedded.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), memberTime)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// Process is an etcd as a process of its own, for outages. It does not wait for the disk, except in benchmarks.
type Process struct {
	URL     string
	t       testing.TB
	process *etcdtest.Process
}

// NewProcess starts an etcd that ends with the test; options are added to its usual ones.
func NewProcess(t testing.TB, options ...string) *Process {
	t.Helper()
	if _, measured := t.(*testing.B); !measured {
		options = append(options, etcdtest.WithoutDisk)
	}
	process := etcdtest.New(t.TempDir(), options...)
	t.Cleanup(process.Kill)
	p := &Process{URL: process.URL, t: t, process: process}
	p.Start()
	return p
}

// do runs an operation with the time limit of a start on a busy machine.
func (p *Process) do(operation func(context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), memberTime)
	defer cancel()
	if err := operation(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// Start starts the process, after Kill with its old data, and waits until it answers.
func (p *Process) Start() {
	p.t.Helper()
	p.do(p.process.Start)
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill() { p.process.Kill() }

// Backup returns a folder with the present content of the store. It restarts the process.
func (p *Process) Backup() (folder string) {
	p.t.Helper()
	p.do(func(ctx context.Context) (err error) {
		folder, err = p.process.Backup(ctx)
		return err
	})
	return folder
}

// Restore kills the process and starts it from a backup, with the backup's older content.
func (p *Process) Restore(backup string) {
	p.t.Helper()
	p.do(func(ctx context.Context) error { return p.process.Restore(ctx, backup) })
}

// Replace kills the process and starts an empty one in its place, which has the old cluster id if it gets the same
// token.
func (p *Process) Replace(token string) {
	p.t.Helper()
	p.do(func(ctx context.Context) error { return p.process.Replace(ctx, token) })
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Run runs f for the time of the test; its context ends with the test.
func Run(t testing.TB, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
