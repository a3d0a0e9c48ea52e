package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/fakenode"
)

// run runs the program as a runtime does, with only the given environment.
func run(t testing.TB, stdin string, env ...string) (stdout, stderr string, exit int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(pluginDir, "contivk8s"))
	cmd.Env = env
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// failure is the error document of the specification.
type failure struct {
	CNIVersion string
	Code       uint
	Msg        string
	Details    string
}

func failureOf(t *testing.T, stdout string) (f failure) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &f); err != nil {
		t.Fatalf("error document %q: %v", stdout, err)
	}
	return f
}

func TestVersionNeedsNothing(t *testing.T) {
	stdout, _, exit := run(t, "", "CNI_COMMAND=VERSION")
	var got struct {
		CNIVersion        string
		SupportedVersions []string
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || exit != 0 {
		t.Fatalf("VERSION prints %q (%v), exit code %d", stdout, err, exit)
	}
	if strings.Join(got.SupportedVersions, " ") != "0.1.0 0.2.0 0.3.0 0.3.1 0.4.0 1.0.0 1.1.0" {
		t.Errorf("supported versions %v", got.SupportedVersions)
	}

	out, err := exec.Command(filepath.Join(pluginDir, "contivk8s"), "-version").CombinedOutput()
	for _, line := range []string{"Version: ", "GitCommit: ", "BuildTime: "} {
		if err != nil || !strings.Contains(string(out), line) {
			t.Errorf("-version prints %q (%v), want %q", out, err, line)
		}
	}
}

func TestABadInvocationIsRefusedWithTheCodeOfTheSpecification(t *testing.T) {
	const good = `{"cniVersion": "1.0.0", "name": "n", "type": "contivk8s", "socket": "/nowhere"}`
	env := func(change ...string) []string {
		return append([]string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c", "CNI_NETNS=/run/netns/x", "CNI_IFNAME=eth0", "CNI_PATH=/opt"}, change...)
	}
	for name, c := range map[string]struct {
		stdin string
		env   []string
		code  uint
	}{
		"unknown command":   {good, env("CNI_COMMAND=UPDATE"), 4},
		"no container":      {good, env("CNI_CONTAINERID="), 4},
		"bad interface":     {good, env("CNI_IFNAME=a/b"), 4},
		"no configuration":  {``, env(), 6},
		"garbage":           {`]`, env(), 6},
		"no name":           {`{"cniVersion": "1.0.0"}`, env(), 7},
		"version from 2031": {`{"cniVersion": "9.0.0", "name": "n"}`, env(), 1},
		"CHECK before 0.4":  {`{"cniVersion": "0.3.1", "name": "n"}`, env("CNI_COMMAND=CHECK"), 1},
		"STATUS before 1.1": {good, env("CNI_COMMAND=STATUS"), 1},
		"GC before 1.1":     {good, env("CNI_COMMAND=GC"), 1},
	} {
		stdout, _, exit := run(t, c.stdin, c.env...)
		if f := failureOf(t, stdout); f.Code != c.code || f.Msg == "" || exit == 0 {
			t.Errorf("%s: %+v, exit code %d, want CNI error %d", name, f, exit, c.code)
		}
	}
}

func TestWithoutAServerEveryCommandSaysSo(t *testing.T) {
	dir := t.TempDir()
	conf := `{"cniVersion": "1.1.0", "name": "n", "type": "contivk8s", "socket": "` + dir + `/cni.sock", "stateDir": "` + dir +
		`", "timeout": 1, "cni.dev/valid-attachments": []}`
	netns := fakenode.NewNamespace(t)
	for command, code := range map[string]uint{"ADD": 11, "CHECK": 11, "GC": 11, "STATUS": 50} {
		stdout, stderr, exit := run(t, conf, "CNI_COMMAND="+command, "CNI_CONTAINERID=c", "CNI_NETNS="+netns, "CNI_IFNAME=eth0", "CNI_PATH=/opt")
		if f := failureOf(t, stdout); f.Code != code || exit == 0 || f.CNIVersion != "1.1.0" || !strings.Contains(f.Msg, "cni.sock") || !strings.Contains(f.Details, "contiv-netplugin") {
			t.Errorf("%s: %+v, exit code %d, want CNI error %d that names the socket, and where to look", command, f, exit, code)
		}
		if !strings.Contains(stderr, command+" c eth0: ") && command != "GC" && command != "STATUS" {
			t.Errorf("%s: the log %q does not say what failed", command, stderr)
		}
	}
}

func TestAServerThatDoesNotAnswerIsNotWaitedForEndlessly(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "cni.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	conf := `{"cniVersion": "1.0.0", "name": "n", "type": "contivk8s", "socket": "` + dir + `/cni.sock", "timeout": 1}`
	stdout, _, _ := run(t, conf, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c", "CNI_NETNS="+fakenode.NewNamespace(t), "CNI_IFNAME=eth0", "CNI_PATH=/opt")
	if f := failureOf(t, stdout); f.Code != 11 {
		t.Errorf("%+v, want CNI error 11", f)
	}
}

func TestTheLogGoesToTheConfiguredFile(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	file := filepath.Join(t.TempDir(), "contivk8s.log")
	conf := `{"cniVersion": "1.1.0", "name": "n", "type": "contivk8s", "socket": "` + node.Socket() + `", "logFile": "` + file + `", "logLevel": "debug"}`
	if _, stderr, exit := run(t, conf, "CNI_COMMAND=STATUS", "CNI_PATH=/opt"); exit != 0 || stderr != "" {
		t.Errorf("exit code %d, standard error %q", exit, stderr)
	}
	run(t, conf, "CNI_COMMAND=CHECK", "CNI_CONTAINERID=c", "CNI_NETNS="+fakenode.NewNamespace(t), "CNI_IFNAME=eth0", "CNI_PATH=/opt")
	log, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(log), "STATUS") || !strings.Contains(string(log), "CHECK c eth0: checkpoint: attachment c@eth0 is unknown") {
		t.Errorf("log %q (%v)", log, err)
	}
}

// Where the log cannot be written it is the runtime's, and commands are carried out as ever.
func TestALogFileThatCannotBeOpenedStopsNothing(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	conf := `{"cniVersion": "1.1.0", "name": "contiv-net", "type": "contivk8s", "socket": "` + node.Socket() + `", "stateDir": "` + node.StateDir() +
		`", "logFile": "/nonexistent/contivk8s.log"}`
	netns := fakenode.NewNamespace(t)
	for _, command := range []string{"ADD", "STATUS", "DEL"} {
		stdout, stderr, exit := run(t, conf, podEnv(command, netns)...)
		if exit != 0 || !strings.Contains(stderr, "/nonexistent/contivk8s.log") {
			t.Errorf("%s: exit code %d, prints %s, the log %q does not name the file", command, exit, stdout, stderr)
		}
	}
	node.NothingLeft(t)
}

// The half millisecond that net/http takes to start is a third of the program's life; importing it should be a
// deliberate choice.
func TestTheProgramStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		switch pkg {
		case "net/http", "crypto/tls", "github.com/sirupsen/logrus", "github.com/vishvananda/netlink":
			t.Errorf("contivk8s links %s", pkg)
		}
	}
}

// BenchmarkStart is the cost of a process that does nothing, beside one of a
// program that does nothing in C.
func BenchmarkStart(b *testing.B) {
	for name, path := range map[string]string{"contivk8s": filepath.Join(pluginDir, "contivk8s"), "true": "/bin/true"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(path)
				cmd.Env = []string{"CNI_COMMAND=VERSION"}
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
