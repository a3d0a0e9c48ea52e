package ovstest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/ovstest"
)

func TestSwitchHasABridgeThatForwardsByFlowsOnly(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br0")

	if got := s.Ofctl("--no-stats", "dump-flows", "br0"); strings.TrimSpace(got) != "" {
		t.Errorf("a new bridge has flows: %s", got)
	}
	s.Ofctl("add-flow", "br0", "table=1,priority=5,actions=drop")
	if got := s.Ofctl("--no-stats", "dump-flows", "br0"); !strings.Contains(got, "table=1, priority=5 actions=drop") {
		t.Errorf("the flow is not there: %s", got)
	}
}

func TestSwitchComesBackAfterVswitchdIsKilled(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br0")
	s.KillVswitchd()
	s.StartVswitchd()
	if got := s.Ofctl("show", "br0"); !strings.Contains(got, "br0") {
		t.Errorf("show: %s", got)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	var s *ovstest.Switch
	t.Run("inner", func(t *testing.T) {
		s = ovstest.Start(t)
		s.AddBridge("br0")
	})
	for _, path := range []string{s.RunDir, "/run/netns/" + s.Netns} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}
