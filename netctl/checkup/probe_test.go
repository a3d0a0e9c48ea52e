package checkup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/test/testkit"
)

// folder is set in the environment of the process that a test starts in namespaces of its own.
const folder = "NETCTL_PROBE_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(folder); dir != "" {
		probe := Probe{ConfDir: filepath.Join(dir, "conf"), BinDir: filepath.Join(dir, "bin"), Tenant: "blue"}
		probe.Run(context.Background(), func(r Result) { fmt.Println(r.OK(), r.Name, r.Detail) })
		return
	}
	os.Exit(m.Run())
}

// script runs the process without a trace on the machine: it has its own network and its own folder of network
// namespaces.
const script = `mount -t tmpfs none /run; ip link set lo up; "$0"; ip -o link show type bridge | wc -l; ip netns list`

// probe runs a probe through the reference plugin "bridge" under our plugin's name, with a configuration in the
// form of the file name.
func probe(t *testing.T, file, conf string) string {
	t.Helper()
	testkit.NeedsMachine(t)
	dir := t.TempDir()
	for _, sub := range []string{"conf", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{pluginType: "bridge", "host-local": "host-local"} {
		if err := os.Symlink("/usr/lib/cni/"+target, filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "conf", file), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--net", "--mount", "sh", "-ec", script, os.Args[0])
	cmd.Env = append(cmd.Environ(), folder+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := regexp.MustCompile(`probe-[0-9]+`).ReplaceAllString(string(out), "probe-PID")
	return regexp.MustCompile(`rtt .* ms`).ReplaceAllString(text, "rtt")
}

const plugin = `"type":"contivk8s","bridge":"probe0","ipam":{"type":"host-local","subnet":"10.99.0.0/24","dataDir":"/run/ipam"}`

func TestTheProbeSendsRealPacketsAndLeavesNothing(t *testing.T) {
	want := `true probe configuration net
true probe netctl-probe-PID-a 10.99.0.2
true probe netctl-probe-PID-b 10.99.0.3
true probe traffic rtt
true probe removed both namespaces and their endpoints
1
`
	for file, conf := range map[string]string{
		"10-x.conflist": `{"cniVersion":"1.0.0","name":"net","plugins":[{` + plugin + `}]}`,
		"10-x.conf":     `{"cniVersion":"0.4.0","name":"net",` + plugin + `}`,
	} {
		if diff := cmp.Diff(want, probe(t, file, conf)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

func TestAProbeThatCannotAttachSaysSoAndLeavesNothing(t *testing.T) {
	got := probe(t, "10-x.conflist", `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"contivk8s","bridge":"probe0","ipam":{"type":"none"}}]}`)
	want := `true probe configuration net
false probe netctl-probe-PID-a failed to find plugin "none" in path [FOLDER]
false probe removed plugin type="contivk8s" failed (delete): failed to find plugin "none" in path [FOLDER]
1
`
	got = regexp.MustCompile(`path \[.*\]`).ReplaceAllString(got, "path [FOLDER]")
	got = regexp.MustCompile(`plugin type="contivk8s" failed \(add\): `).ReplaceAllString(got, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
