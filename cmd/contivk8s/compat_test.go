package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/fakenode"
)

// podEnv is the environment of a command about a pod.
func podEnv(command, netns string) []string {
	return []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=pod", "CNI_NETNS=" + netns, "CNI_IFNAME=eth0", "CNI_PATH=/opt"}
}

func confOf(node *fakenode.Node, versionField string) string {
	return fmt.Sprintf(`{%s "name": "contiv-net", "type": "contivk8s", "socket": %q, "stateDir": %q}`, versionField, node.Socket(), node.StateDir())
}

func TestConfigurationsOfOldVersionsAreAnsweredInTheOldShape(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	for _, field := range []string{"", `"cniVersion": "0.1.0",`, `"cniVersion": "0.2.0",`} {
		netns := fakenode.NewNamespace(t)
		stdout, stderr, exit := run(t, confOf(node, field), podEnv("ADD", netns)...)
		var got struct {
			IP4, IP6 struct {
				IP, Gateway string
				Routes      []struct{ Dst string }
			}
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || exit != 0 {
			t.Fatalf("%q: ADD prints %q (%v), log %q", field, stdout, err, stderr)
		}
		if got.IP4.IP != "10.1.0.2/16" || got.IP4.Gateway != "10.1.0.1" || got.IP6.IP != "fd01::2/64" || len(got.IP4.Routes) != 1 {
			t.Errorf("%q: %s", field, stdout)
		}
		if stdout, _, exit := run(t, confOf(node, field), podEnv("DEL", netns)...); exit != 0 {
			t.Errorf("%q: DEL prints %q", field, stdout)
		}
		node.NothingLeft(t)
	}
}

func TestAConfigurationOfAnUnknownVersionIsRefusedForAddAndNotForDel(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	unknown := confOf(node, `"cniVersion": "0.6.0",`)
	stdout, _, exit := run(t, unknown, podEnv("ADD", netns)...)
	if f := failureOf(t, stdout); f.Code != 1 || exit == 0 || !strings.Contains(stdout, "0.6.0") || !strings.Contains(stdout, "0.3.1") {
		t.Errorf("ADD prints %s, want CNI error 1 with the versions that are understood", stdout)
	}
	if stdout, _, exit := run(t, confOf(node, `"cniVersion": "1.0.0",`), podEnv("ADD", netns)...); exit != 0 {
		t.Fatalf("ADD prints %q", stdout)
	}
	if stdout, _, exit := run(t, unknown, podEnv("DEL", netns)...); exit != 0 || stdout != "" {
		t.Errorf("DEL prints %q, exit code %d", stdout, exit)
	}
	node.NothingLeft(t)
}

// A container's process has ended, and a process of the host has its id by now: DEL is carried out, and says so.
func TestADelDoesNotMindWhoHasItsNamespaceByNow(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	conf := confOf(node, `"cniVersion": "1.0.0",`)
	if stdout, _, exit := run(t, conf, podEnv("ADD", fakenode.NewNamespace(t))...); exit != 0 {
		t.Fatalf("ADD prints %q", stdout)
	}
	for range 2 {
		if stdout, _, exit := run(t, conf, podEnv("DEL", "/proc/self/ns/net")...); exit != 0 || stdout != "" {
			t.Errorf("DEL prints %q, exit code %d", stdout, exit)
		}
	}
	node.NothingLeft(t)
}

func TestANamespaceThatOnlyTheRuntimeSeesIsPassedAlong(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	// As a runtime with mounts of its own, which the server does not see.
	runHidden := func(command string) string {
		t.Helper()
		script := `mount -t tmpfs none "$0" && touch "$0/net" && mount --bind "$1" "$0/net" && CNI_NETNS="$0/net" exec "$2"`
		hidden := t.TempDir()
		cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, hidden, netns, filepath.Join(pluginDir, "contivk8s"))
		cmd.Env = append(os.Environ(), podEnv(command, "")...)
		cmd.Stdin = strings.NewReader(confOf(node, `"cniVersion": "1.0.0",`))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		if _, err := os.Stat(filepath.Join(hidden, "net")); err == nil {
			t.Fatal("the server sees the namespace's path, too")
		}
		return string(out)
	}
	if out := runHidden("ADD"); !strings.Contains(out, "10.1.0.2/16") {
		t.Errorf("ADD prints %s", out)
	}
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	runHidden("CHECK")
	runHidden("DEL")
	node.NothingLeft(t)
}

func TestAnAddressMayBeAskedForInTheArguments(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	conf := confOf(node, `"cniVersion": "1.0.0",`)
	env := podEnv("ADD", fakenode.NewNamespace(t))
	if stdout, _, exit := run(t, conf, append(env, "CNI_ARGS=IgnoreUnknown=1;IP=10.1.7.7")...); exit != 0 || !strings.Contains(stdout, "10.1.7.7/16") {
		t.Errorf("ADD with an address prints %s", stdout)
	}
	stdout, _, exit := run(t, conf, append(env, "CNI_ARGS=MAC=02:00:00:00:00:01")...)
	if f := failureOf(t, stdout); f.Code != 2 || exit == 0 || !strings.Contains(f.Msg, "hardware addresses follow from IP addresses") {
		t.Errorf("ADD with a hardware address prints %s", stdout)
	}
}
