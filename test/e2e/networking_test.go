package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/pages"
	"github.com/contiv/netplugin/test/testkit"
)

// TestLongTheCommandsOfTheNetworkingPageWork runs the blocks of commands of docs/networking.md unchanged: those of
// the first section make the test bed, and precede each of the others, which find an empty cluster.
func TestLongTheCommandsOfTheNetworkingPageWork(t *testing.T) {
	testkit.TakesLong(t)
	sections, err := pages.Commands("../../docs/networking.md")
	if err != nil {
		t.Fatal(err)
	}
	shell := "bin/testbed --dir " + filepath.Join(t.TempDir(), "bed")
	bed := func(script string) {
		t.Helper()
		if err := runHere(t, "sh", "-ec", strings.ReplaceAll(script, "bin/testbed", shell)); err != nil {
			t.Fatal(err)
		}
	}
	const enter = "bin/testbed shell node1\n"
	outside, begin, entered := strings.Cut(sections[0].Commands, enter)
	if !entered {
		t.Fatalf("the first section does not enter a node:\n%s", sections[0].Commands)
	}
	t.Cleanup(func() { bed("bin/testbed down") })
	bed(outside)
	bed("bin/testbed shell node1 sh -ec 'until ip -br link show dev contivh0 up | grep -q .; do sleep 0.1; done'")
	for _, s := range sections[1:] {
		t.Run(s.Title, func(t *testing.T) {
			inside := strings.Fields(shell + " shell node1 bash -ec")
			if err := runHere(t, append(inside, begin+s.Commands)...); err != nil {
				t.Error(err)
			}
			if err := runHere(t, append(inside, emptyAgain)...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// emptyAgain removes what the commands of a section may have made.
const emptyAgain = `
for pod in $(ip netns list | cut -d' ' -f1 | grep -v ^contiv-); do
  CNI_ARGS=IO_CONTIV_TENANT=blue cnitool del contiv-net "/run/netns/$pod"
  ip netns delete "$pod"
done
netctl bgp rm node1 2>/dev/null || :
netctl export -t blue | netctl delete -f -
netctl global set --fwd-mode routing --arp-mode proxy`
