package ovsdb

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// patience is how long anything may take that must happen.
const patience = time.Minute

const schemaFile = "/usr/share/openvswitch/vswitch.ovsschema"

// server is a real ovsdb-server with a database of its own and no vswitchd.
type server struct {
	t       *testing.T
	dir     string
	process *exec.Cmd
}

func startServer(t *testing.T) *server {
	t.Helper()
	testkit.NeedsMachine(t)
	s := &server{t: t, dir: t.TempDir()}
	s.run("ovsdb-tool", "create", s.path("conf.db"), schemaFile)
	s.start()
	t.Cleanup(s.kill)
	s.vsctl("init")
	return s
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }
func (s *server) target() string          { return "unix:" + s.path("db.sock") }

func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command("ovsdb-server", s.path("conf.db"),
		"--remote=punix:"+s.path("db.sock"), "--unixctl="+s.path("ctl"), "--log-file="+s.path("log"), "-vconsole:off")
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	testkit.Eventually(s.t, patience, "the server accepts connections", func() bool {
		conn, err := net.Dial("unix", s.path("db.sock"))
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// kill is kill -9: the socket file stays.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.process = nil
}

func (s *server) vsctl(args ...string) string {
	s.t.Helper()
	return s.run("ovs-vsctl", append([]string{"--db=" + s.target(), "--no-wait", "--timeout=10"}, args...)...)
}

func (s *server) run(name string, args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

func (s *server) dial(options connectionOptions) *connection {
	s.t.Helper()
	conn, err := dial(context.Background(), s.target(), options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// runClient runs the client until the test ends.
func runClient(t *testing.T, c *Client) {
	t.Helper()
	startClient(t, c)
	testkit.Eventually(t, patience, "the client is connected", c.Connected)
}

// startClient runs the client until stop, which waits for its end.
func startClient(t *testing.T, c *Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
