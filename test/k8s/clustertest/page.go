package clustertest

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/pages"
)

// Page is the documentation page with the commands of users.
const Page = "../../../docs/kubernetes.md"

// prelude replaces commands whose work is done elsewhere: images are built before, and the addresses in contiv.env
// are those of the bed.
const prelude = `
make() { [ "$*" = images ] && [ -e bin/contiv-images.tar ]; }
vi() { [ -e "$1" ]; }
export NETCTL_CONFIG=$PWD/netctl.json
set -x
`

// Follow runs the commands of a section of the page on the first node, in the top directory of a tree with the
// manifests and the built programs, and returns their output.
func Follow(t *testing.T, c *cluster.Cluster, title string) string {
	t.Helper()
	sections, err := pages.Commands(Page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if s.Title != title {
			continue
		}
		commands := strings.NewReplacer("NODE:", strings.TrimSuffix(c.Nodes[0].At(0), "0"), "NAMESPACE/POD", "default/shown", "NAMESPACE/NAME", "default/shown").Replace(s.Commands)
		cmd, err := c.Shell(t.Context(), c.Nodes[0].Name, "bash", "-ec", `cd "$1"; eval "$2"`, "bash", c.Files(), prelude+commands)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if t.Logf("%s\n%s", title, out); err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		return string(out)
	}
	t.Fatalf("%s has no commands in section %s", Page, title)
	return ""
}
