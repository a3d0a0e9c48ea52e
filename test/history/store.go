package history

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/contiv/netplugin/test/testkit"
)

// Store is an etcd beside the netmasters, which can be set back.
type Store struct {
	url, peer string
	dir       string
	log       string
	cmd       *exec.Cmd // nil: not running
}

// StartStore starts an empty store.
func StartStore(ctx context.Context, dir string) (*Store, error) {
	s := &Store{url: testkit.FreeURL(), peer: testkit.FreeURL(), dir: filepath.Join(dir, "store"), log: filepath.Join(dir, "store.log")}
	return s, s.start(ctx)
}

func (s *Store) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	// It is killed, and the machine goes on: what it has written is there without waiting for the disk.
	s.cmd = exec.Command("etcd", "--unsafe-no-fsync", "--name=store", "--data-dir="+s.dir, "--listen-client-urls="+s.url, "--advertise-client-urls="+s.url,
		"--listen-peer-urls="+s.peer, "--initial-advertise-peer-urls="+s.peer, "--initial-cluster=store="+s.peer)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("etcd: %w", err)
	}
	return testkit.Poll(ctx, func() error { return healthy(ctx, s.url) })
}

// Stop kills the store, if it runs.
func (s *Store) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()         // it ends by the signal
		s.cmd = nil
	}
}

// Backup copies what the store has. It is away meanwhile.
func (s *Store) Backup(ctx context.Context) error {
	s.Stop()
	if err := os.CopyFS(s.dir+".backup", os.DirFS(s.dir)); err != nil {
		return err
	}
	return s.start(ctx)
}

// Restore sets the store back to the backup.
func (s *Store) Restore(ctx context.Context) error {
	s.Stop()
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	if err := os.Rename(s.dir+".backup", s.dir); err != nil {
		return err
	}
	return s.start(ctx)
}
