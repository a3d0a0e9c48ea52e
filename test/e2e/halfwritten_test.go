package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testbed"
)

// A daemon that is killed while it writes a small file leaves a part of it, under a temporary name. The next one
// removes those, but neither files that may be being written at the moment, nor foreign ones.
func TestWhatKilledDaemonsLeftOfFilesGoesWhenTheyStart(t *testing.T) {
	t.Parallel()
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 1})
	n := bed.Nodes[0]
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(n.StartNetmaster(), n.StartNetplugin(), n.WaitReady(ctx))
	must(n.Netplugin().Kill(), n.Netmaster().Kill())
	dirs := []string{n.StoreDir(), "/run/contiv", "/var/lib/contiv"}
	for _, name := range []string{"pki", "cni", "cni/pending-del", "host", "border"} {
		dirs = append(dirs, "/var/lib/contiv/"+name)
	}
	const old, young, foreign = ".tmp-1234567890", ".tmp-2345678901", ".tmp-mine"
	for _, dir := range dirs {
		_, err := n.Run(ctx, "sh", "-ec", fmt.Sprintf("mkdir -p %[1]s; cd %[1]s; touch %[3]s; touch -d '2 hours ago' %[2]s %[4]s", dir, old, young, foreign))
		must(err)
	}
	must(n.StartNetmaster(), n.StartNetplugin(), n.WaitReady(ctx))
	out, err := n.Run(ctx, "find", "/run/contiv", "/var/lib/contiv", "-name", old)
	if must(err); out != "" {
		t.Errorf("left:\n%s", out)
	}
	for _, dir := range dirs {
		out, err := n.Run(ctx, "ls", "-A", dir)
		must(err)
		for _, name := range []string{young, foreign} {
			if !strings.Contains(out, name) && !(name == young && strings.HasSuffix(dir, "/cni")) { // where nobody else writes
				t.Errorf("%s: %s is gone:\n%s", dir, name, out)
			}
		}
	}
}
