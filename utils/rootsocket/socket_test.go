package rootsocket

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/test/testkit"
)

// served accepts and closes connections at a path until the test ends; the channel has the error that ended it.
func served(t *testing.T, path string) (*Listener, chan error) {
	t.Helper()
	l, err := ListenOnly(path, 1, logrus.NewEntry(logrus.New()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			conn.Close()
		}
	}()
	return l, ended
}

func isReached(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := testkit.Poll(ctx, func() error {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		t.Fatal(err)
	}
}

func TestASocketWhoseFileIsRemovedIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "sock")
	l, ended := served(t, path)
	isReached(t, path)
	for _, gone := range []string{path, filepath.Dir(path)} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		isReached(t, path)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file made anew: %v, %v, want mode 0600", info, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file after Close: %v, want none", err)
	}
}

// Another process's file at the path stays.
func TestAFileOfSomebodyElseIsLeftToHim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	s, err := Listen(path, logrus.NewEntry(logrus.New()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	const others = "others"
	if err := os.WriteFile(path, []byte(others), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := s.listener(); err != nil || l != s.now {
		t.Errorf("looking at the file: %v, %v", l, err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != others {
		t.Errorf("the file has %q, %v", content, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
