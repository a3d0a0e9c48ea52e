package suite

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
	"github.com/contiv/netplugin/test/testkit"
)

// cyclonusCases is how many cases cyclonus v0.5.6 has by default.
const cyclonusCases = 112

// TestLongCyclonus runs those cases, by TCP and UDP: 9 pods of 3 namespaces, each to the services of all
// others, or, in cases where pods come or get other labels, to the pods, after each change of policies, labels, pods or
// namespaces.
func TestLongCyclonus(t *testing.T) {
	testkit.TakesLong(t)
	c := clustertest.Up(t, cluster.Config{Nodes: 3}, false)
	ran, said, err := runProgram(t, c, "cyclonus.test")
	if err != nil {
		t.Fatal(err)
	}
	for name, verdict := range ran {
		if verdict != "PASS" {
			t.Errorf("%s: %s", name, verdict)
		}
	}
	if len(ran) != cyclonusCases {
		t.Errorf("%d cases ran, want %d", len(ran), cyclonusCases)
	}
	t.Logf("%d probes of all pods were done again", strings.Count(said, "probed twice"))
	if t.Failed() {
		t.Log(tail(said))
	}
}
