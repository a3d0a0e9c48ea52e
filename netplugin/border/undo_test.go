package border

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
)

// A node without uplinks reaches the network outside by its own link, and answers there for its addresses.
func TestARouterThatHasNoUplinksAnyMoreLeavesNothing(t *testing.T) {
	testkit.NeedsMachine(t)
	alone(t, func() {
		sh(t, "ip link add vvport7 type veth peer name vport7; ip link set vvport7 up")
		border := New(Config{Driver: &wired{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
		if err := border.applyRouter(t.Context(), &agent.BGP{AS: 1, Link: netip.MustParsePrefix("203.0.113.11/24")}); err != nil {
			t.Fatal(err)
		}
		left := func() string {
			out, err := exec.Command("sh", "-ec", "ip -oneline link show "+Interface+" 2>/dev/null || true; ip route show 203.0.113.0/24; nft list tables").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return strings.TrimSpace(string(out))
		}
		if before := left(); !strings.Contains(before, Interface) || !strings.Contains(before, "table arp contiv") {
			t.Fatalf("the router has %q", before)
		}
		for range 2 { // the second time there is nothing to do
			if err := Undo(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if after := left(); after != "" {
			t.Errorf("left: %s", after)
		}
	})
}
