// Package etcdtest runs Debian's etcd as a separate process, which tests kill, stop, restore from a backup, and
// replace by another one. It is faster than a member in a test program, which the race detector slows down.
package etcdtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// Process is an etcd of one member. Its methods must be called by one goroutine.
type Process struct {
	// URL is its client URL, for as long as the test program runs.
	URL string

	options []string
	token   string
	dir     string
	peer    string
	running *running // nil: not running
}

type running struct {
	process *os.Process
	ended   <-chan struct{}
}

// WithoutDisk makes an etcd not wait for the disk. What it has acknowledged still survives a kill of the process,
// as the machine keeps running.
const WithoutDisk = "--unsafe-no-fsync"

// Token is the cluster token of a new process. Two processes with one token have one cluster id.
const Token = "first"

// LargeTxns gives an etcd the transaction limit of the members embedded in netmasters.
const LargeTxns = "--max-txn-ops=5120"

// New returns an etcd that does not run yet. Its data, log and backups are in the folder; options are added to its
// usual ones.
func New(dir string, options ...string) *Process {
	return &Process{URL: testkit.FreeURL(), options: options, token: Token, dir: dir, peer: testkit.FreeURL()}
}

func (p *Process) data() string { return filepath.Join(p.dir, "data") }

// Log returns the path of its log file, of all its starts.
func (p *Process) Log() string { return filepath.Join(p.dir, "etcd.log") }

// Start starts it, with its data if it ran before, and waits until it serves or the context ends. It ends with
// this program at the latest.
func (p *Process) Start(ctx context.Context) error {
	log, err := os.OpenFile(p.Log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command("etcd", append([]string{"--name=a", "--data-dir=" + p.data(), "--logger=zap", "--log-level=error",
		"--listen-client-urls=" + p.URL, "--advertise-client-urls=" + p.URL,
		"--listen-peer-urls=" + p.peer, "--initial-advertise-peer-urls=" + p.peer,
		"--initial-cluster=a=" + p.peer, "--initial-cluster-token=" + p.token,
		"--heartbeat-interval=100", "--election-timeout=500"}, p.options...)...)
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := testkit.Start(cmd)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	p.running = &running{cmd.Process, ended}
	return testkit.Poll(ctx, func() error { return p.serves(ctx) })
}

// serves returns an error unless the member has a leader, and so accepts requests.
func (p *Process) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/health", nil)
	if err != nil {
		return err
	}
	req.Close = true // the next time, another process may answer
	answer, err := http.DefaultClient.Do(req)
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("%s: %s", req.URL, answer.Status)
	}
	select {
	case <-p.running.ended:
		return fmt.Errorf("etcd ended: %s", p.lastLogged())
	default:
		return err
	}
}

func (p *Process) lastLogged() string {
	text, err := os.ReadFile(p.Log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) error { return p.running.process.Signal(s) }

// Kill ends it as kill -9 does, if it runs. Its data remains.
func (p *Process) Kill() {
	if p.running != nil {
		_ = p.running.process.Kill() // it may have ended already
		<-p.running.ended
		p.running = nil
	}
}

// Backup returns a new folder with its present content; it restarts the process.
func (p *Process) Backup(ctx context.Context) (string, error) {
	p.Kill()
	backup, err := os.MkdirTemp(p.dir, "backup")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(backup, os.DirFS(p.data())); err != nil {
		return "", err
	}
	return backup, p.Start(ctx)
}

// Restore restarts it from a backup, which can be used again.
func (p *Process) Restore(ctx context.Context, backup string) error {
	p.Kill()
	if err := os.RemoveAll(p.data()); err != nil {
		return err
	}
	if err := os.CopyFS(p.data(), os.DirFS(backup)); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Replace restarts it empty, with another cluster id if the token is another.
func (p *Process) Replace(ctx context.Context, token string) error {
	p.Kill()
	if err := os.RemoveAll(p.data()); err != nil {
		return err
	}
	p.token = token
	return p.Start(ctx)
}
