// Package ovstest starts an Open vSwitch for a test: ovsdb-server and ovs-vswitchd with their own database and run
// directory, in a network namespace of their own, all of which is removed when the test ends.
//
// Bridges use the userspace datapath, so the kernel needs no module. A machine
// without Open vSwitch fails the test; only "go test -short" skips it.
package ovstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/unixctl"
	"github.com/contiv/netplugin/test/drops"
	"github.com/contiv/netplugin/test/testkit"
)

// patience is the time limit for anything that OVS does.
const patience = time.Minute

// Switch is a running Open vSwitch.
type Switch struct {
	RunDir string // sockets, pid files, logs and the database
	Socket string // of ovsdb-server
	Netns  string // name of the network namespace

	VswitchdOptions []string // of ovs-vswitchd when it is started next

	t        testing.TB
	server   *process
	vswitchd *process
	began    drops.Counts
}

// Start starts Open vSwitch for a test.
func Start(t testing.TB) *Switch {
	t.Helper()
	testkit.NeedsMachine(t)
	// Not t.TempDir: the path of a unix socket is limited to 107 bytes.
	dir, err := os.MkdirTemp("", "ovs")
	if err != nil {
		t.Fatalf("run directory of the switch: %v", err)
	}
	s := &Switch{t: t, RunDir: dir, Socket: filepath.Join(dir, "db.sock"), Netns: filepath.Base(dir)}
	t.Cleanup(s.stop)

	s.host("ip", "netns", "add", s.Netns)
	s.Exec("ip", "link", "set", "lo", "up")
	s.host("ovsdb-tool", "create", s.path("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema")
	s.StartServer()
	s.StartVswitchd()
	s.began = s.Drops()
	return s
}

// StartServer starts the database server and waits until it answers.
func (s *Switch) StartServer() {
	s.t.Helper()
	s.server = s.spawn("ovsdb-server", s.path("conf.db"), "--remote=punix:"+s.Socket,
		"--pidfile="+s.path("ovsdb-server.pid"), "--unixctl="+s.path("ovsdb-server.ctl"),
		"--log-file="+s.path("ovsdb-server.log"))
	s.eventually("ovsdb-server answers", func() error {
		_, err := s.Try("ovs-vsctl", "--db=unix:"+s.Socket, "--no-wait", "--timeout=5", "init")
		return err
	})
}

// KillServer kills the database server with SIGKILL and waits for its end. The switching daemon continues.
func (s *Switch) KillServer() {
	s.t.Helper()
	s.server.kill()
	s.removeLeftovers("ovsdb-server.ctl", "ovsdb-server.pid")
}

// PauseServer stops the database server until resume is called.
func (s *Switch) PauseServer() (resume func()) { return s.pause(s.server) }

// PauseVswitchd stops the switching daemon until resume is called.
func (s *Switch) PauseVswitchd() (resume func()) { return s.pause(s.vswitchd) }

func (s *Switch) pause(p *process) (resume func()) {
	s.t.Helper()
	signal := func(what syscall.Signal) {
		if err := p.cmd.Process.Signal(what); err != nil {
			s.t.Errorf("%s: %v: %v", p.cmd.Path, what, err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// StartVswitchd starts the switching daemon and waits until it has made the
// bridges of the database.
func (s *Switch) StartVswitchd() {
	s.t.Helper()
	s.vswitchd = s.spawn("ovs-vswitchd", append([]string{"unix:" + s.Socket,
		"--pidfile=" + s.path("ovs-vswitchd.pid"), "--unixctl=" + s.path("ovs-vswitchd.ctl"),
		"--log-file=" + s.path("ovs-vswitchd.log")}, s.VswitchdOptions...)...)
	s.eventually("ovs-vswitchd has its bridges", s.hasBridges)
}

func (s *Switch) hasBridges() error {
	wanted, err := s.Try("ovs-vsctl", "--db=unix:"+s.Socket, "--timeout=5", "list-br")
	if err != nil {
		return err
	}
	have, err := s.Try("ovs-appctl", "-t", s.path("ovs-vswitchd.ctl"), "ofproto/list")
	if err != nil {
		return err
	}
	for _, bridge := range strings.Fields(wanted) {
		if !slices.Contains(strings.Fields(have), bridge) {
			return fmt.Errorf("bridge %s is not there", bridge)
		}
	}
	return nil
}

// KillVswitchd kills the switching daemon with SIGKILL and waits for its end. The database server continues. Its
// remaining sockets are removed, as an init script would.
func (s *Switch) KillVswitchd() {
	s.t.Helper()
	s.vswitchd.kill()
	s.removeLeftovers("ovs-vswitchd.ctl", "ovs-vswitchd.pid")
}

func (s *Switch) removeLeftovers(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.t.Fatalf("after the death of its daemon: %v", err)
		}
	}
}

// Bridge returns a bridge's OpenFlow socket, as a target to dial.
func (s *Switch) Bridge(name string) string { return "unix:" + s.path(name+".mgmt") }

// AddBridge adds a bridge that forwards only by flows. Settings such as
// "other_config:hwaddr=\"02:00:00:00:00:01\"" are set in its row.
func (s *Switch) AddBridge(name string, settings ...string) {
	s.t.Helper()
	row := append([]string{"datapath_type=netdev", "fail_mode=secure",
		"protocols=OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow15"}, settings...)
	s.Vsctl(append([]string{"add-br", name, "--", "set", "bridge", name}, row...)...)
}

// AwaitLink waits until a link carries packets: until the kernel has processed that its other end is up, packets
// are lost.
func (s *Switch) AwaitLink(name string) {
	s.t.Helper()
	s.eventually("link "+name+" carries packets", func() error {
		shown, err := s.Try("ip", "link", "show", name)
		if err == nil && !strings.Contains(shown, "state UP") {
			err = errors.New(shown)
		}
		return err
	})
}

// KeepConnections extends the timeouts of the connection tracker for zones to more than the duration of tests,
// once there is a bridge: idle connections expire within a minute otherwise.
func (s *Switch) KeepConnections(zones ...uint16) {
	s.t.Helper()
	s.Vsctl("--", "--id=@d", "create", "Datapath", "datapath_version=0", "--", "set", "Open_vSwitch", ".", "datapaths:netdev=@d")
	for _, zone := range zones {
		s.Vsctl("add-zone-tp", "netdev", fmt.Sprint("zone=", zone), "udp_first=3600", "udp_single=3600", "udp_multiple=3600", "tcp_syn_sent=3600", "tcp_syn_recv=3600")
	}
}

// Vsctl runs ovs-vsctl on this switch.
func (s *Switch) Vsctl(args ...string) string {
	s.t.Helper()
	return s.Exec("ovs-vsctl", append([]string{"--db=unix:" + s.Socket, "--timeout=60"}, args...)...)
}

// Ofctl runs ovs-ofctl on this switch, with OpenFlow 1.3: Ofctl("dump-flows", "br0").
func (s *Switch) Ofctl(args ...string) string {
	s.t.Helper()
	return s.Exec("ovs-ofctl", append([]string{"-O", "OpenFlow13", "--timeout=60"}, args...)...)
}

// Appctl runs a command of the switching daemon and returns its output, as ovs-appctl does, but without a process:
// some tests call it thousands of times.
func (s *Switch) Appctl(command string, args ...string) string {
	s.t.Helper()
	text, err := s.call(command, args...)
	if err != nil {
		s.t.Fatalf("%s %q: %v", command, args, err)
	}
	return text
}

func (s *Switch) call(command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return unixctl.Call(ctx, s.path("ovs-vswitchd.ctl"), command, args...)
}

// Exec runs a command in the switch's namespace and returns what it prints; a
// failure ends the test.
func (s *Switch) Exec(name string, args ...string) string {
	s.t.Helper()
	out, err := s.Try(name, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// Try is Exec for commands that may fail.
func (s *Switch) Try(name string, args ...string) (string, error) {
	return Run(s.Command(name, args...))
}

// Command prepares a command in the switch's namespace.
func (s *Switch) Command(name string, args ...string) *exec.Cmd {
	cmd := inNamespace(s.Netns, append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), s.Env()...)
	return cmd
}

func inNamespace(namespace string, command ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", namespace}, command...)...)
}

// Env returns the environment with which the tools of OVS find this switch.
func (s *Switch) Env() []string {
	return []string{"OVS_RUNDIR=" + s.RunDir, "OVS_DBDIR=" + s.RunDir, "OVS_LOGDIR=" + s.RunDir, "OVS_SYSCONFDIR=" + s.RunDir}
}

func (s *Switch) path(name string) string { return filepath.Join(s.RunDir, name) }

// host runs a command outside the namespace.
func (s *Switch) host(name string, args ...string) {
	s.t.Helper()
	if _, err := Run(exec.Command(name, args...)); err != nil {
		s.t.Fatal(err)
	}
}

// Run runs a command and returns its output; the error includes its standard error.
func Run(cmd *exec.Cmd) (string, error) {
	var out, problem strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}

func (s *Switch) eventually(what string, try func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := testkit.Poll(ctx, try); err != nil {
		s.t.Fatalf("%s: not within %v: %v", what, patience, err)
	}
}

// stop ends everything that Start and the test have started.
func (s *Switch) stop() {
	if s.t.Failed() {
		s.showLog("ovs-vswitchd.log")
		s.t.Log(s.Drops().Since(s.began))
	}
	for _, p := range []*process{s.vswitchd, s.server} {
		if p != nil {
			p.kill()
		}
	}
	if _, err := Run(exec.Command("ip", "netns", "del", s.Netns)); err != nil {
		s.t.Errorf("clean up: %v", err)
	}
	if err := os.RemoveAll(s.RunDir); err != nil {
		s.t.Errorf("clean up: %v", err)
	}
}

// showLog copies the warnings and errors of a daemon to the test's log.
func (s *Switch) showLog(name string) {
	log, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Logf("no log of the switch: %v", err)
		return
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "|WARN|") || strings.Contains(line, "|ERR|") || strings.Contains(line, "|EMER|") {
			s.t.Logf("%s: %s", name, strings.TrimSpace(line))
		}
	}
}
