package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// onlyIPv6 is the section about clusters without IPv4.
const onlyIPv6 = "IPv6 only"

// Nodes that have no address of IPv4 are installed by the commands of the page.
func TestInstallationWithIPv6Only(t *testing.T) {
	inCluster(t, cluster.Config{Nodes: 3, Install: "three", ByHand: true, OnlyIPv6: true}, []part{
		{"the page says how to install", installation.ipv6ByThePage},
		{"it is closed", installation.closed},
		{"the page says where to look", installation.lookAround},
		{"a removal by the page leaves clean nodes", installation.removal},
	})
}

func (i installation) ipv6ByThePage() {
	i.must(os.Symlink(i.Bin, filepath.Join(i.Files(), "bin")))
	i.patched("three")
	i.follow(onlyIPv6)
	i.must(i.Settle(i.Context()))
	a, b := i.pod("first", 1), i.pod("second", 2)
	for _, p := range []*cluster.Pod{a, b} {
		if !strings.HasPrefix(p.IP, "fd00:10:128::") {
			i.Errorf("%s has address %s", p.Name, p.IP)
		}
	}
	if _, err := a.Run(i.Context(), "ping", "-c", "1", "-W", "5", b.IP); err != nil {
		i.Error(err)
	}
}
