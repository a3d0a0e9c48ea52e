package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
)

// A client of a plain store owns the cluster: no enforced cluster is founded there, and nothing is written.
func TestNoEnforcedClusterIsFoundedWhereOthersReachTheStorePlainly(t *testing.T) {
	etcd := etcdtest.New(t.TempDir(), etcdtest.WithoutDisk)
	t.Cleanup(etcd.Kill)
	if err := etcd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	anywhere := strings.Replace(etcd.URL, "127.0.0.1", "0.0.0.0", 1) // which is reached here, too
	const again = 1                                                  // it is started again: one of several may find that there is a cluster when the others are up
	for name, c := range map[string]struct {
		code  int
		flags []string
		want  []string
	}{
		"an etcd, --secure": {22, []string{"--secure", "--etcd-endpoints", anywhere}, []string{"--etcd-endpoints " + anywhere, "--secure", "--insecure"}},
		"a member, --secure": {22, []string{"--secure", "--embedded-etcd-client-url", "http://192.0.2.1:2379", "--embedded-etcd-peer-url", "http://192.0.2.1:2380"},
			[]string{"--embedded-etcd-client-url http://192.0.2.1:2379, --embedded-etcd-peer-url http://192.0.2.1:2380", "--secure"}},
		"a member's clients, by default": {22, []string{"--embedded-etcd-client-url", "http://192.0.2.1:2379"}, []string{"--embedded-etcd-client-url http://192.0.2.1:2379"}},
		"one of three, by default": {again, []string{"--embedded-etcd-name", "m1", "--embedded-etcd-peers", "m1=http://192.0.2.1:2380,m2=http://192.0.2.2:2380,m3=http://192.0.2.3:2380"},
			[]string{"--embedded-etcd-peer-url http://192.0.2.1:2380"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, addr := t.TempDir(), testkit.FreeAddress()
			p := &process{T: t, addr: addr, flags: slices.Concat([]string{"--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing", "--external-address", addr, "--internal-address", addr}, keptIn(dir), c.flags)}
			if strings.HasPrefix(name, "an etcd") {
				p.flags = slices.DeleteFunc(p.flags, func(f string) bool { return f == "--embedded-etcd" || f == filepath.Join(dir, "etcd") })
			}
			p.start()
			p.endsWithTest()
			ended := time.AfterFunc(time.Minute, p.kill)
			defer ended.Stop()
			_ = p.cmd.Wait() // its exit status is checked
			if code := p.cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(p.log.String(), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "pki", "api-ca.key")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it has made authorities: %v", err)
			}
			if embedded.HasData(filepath.Join(dir, "etcd")) {
				t.Error("it has founded a store")
			}
		})
	}
}

// A cluster on such a store is open, or permissive, and is not enforced before its store is closed, or the
// machine's own.
func TestAClusterOnAPlainStoreIsPermissiveAtMost(t *testing.T) {
	etcd := etcdtest.New(t.TempDir(), etcdtest.WithoutDisk)
	t.Cleanup(etcd.Kill)
	if err := etcd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	anywhere, dir, addr := strings.Replace(etcd.URL, "127.0.0.1", "0.0.0.0", 1), t.TempDir(), testkit.FreeAddress()
	leads := func(flags ...string) *closedOne {
		t.Helper()
		p := &process{T: t, addr: addr, flags: slices.Concat([]string{"--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing", "--external-address", addr,
			"--internal-address", addr}, keptIn(dir)[:6], flags)}
		p.start()
		p.endsWithTest()
		leader(t, time.Minute, []*process{p})
		return &closedOne{process: p, root: clientAt(t, filepath.Join(dir, "netmaster.sock"))}
	}
	is := func(c *closedOne, want string) {
		t.Helper()
		var said struct{ Mode string }
		if answer := c.byRoot("GET", mastercfg.SecurityPath, ""); json.Unmarshal([]byte(answer), &said) != nil || said.Mode != want {
			t.Errorf("%s; want %s", answer, want)
		}
	}
	ends := func(c *closedOne) {
		t.Helper()
		if err := errors.Join(c.cmd.Process.Signal(syscall.SIGTERM), c.cmd.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	c := leads("--insecure", "--etcd-endpoints", anywhere)
	is(c, "open")
	ends(c)
	c = leads("--secure", "--etcd-endpoints", anywhere)
	is(c, "permissive")
	for _, step := range []string{"/enforce", "/enforce?dryRun=true"} {
		code, answer, err := c.ask(c.root, "", "POST", mastercfg.SecurityPath+step, "")
		if err != nil || code != http.StatusInternalServerError || !strings.Contains(answer, anywhere) || !strings.Contains(answer, "https") {
			t.Errorf("%s: %d %s %v", step, code, answer, err)
		}
	}
	is(c, "permissive")
	ends(c)
	c = leads("--etcd-endpoints", etcd.URL)
	c.byRoot("POST", mastercfg.SecurityPath+"/enforce", "")
	is(c, "enforced")
}
