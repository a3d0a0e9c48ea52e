package unixctl_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/unixctl"
	"github.com/contiv/netplugin/test/ovstest"
)

func TestADaemonCarriesOutACommandOrSaysWhyNot(t *testing.T) {
	s := ovstest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	socket := filepath.Join(s.RunDir, "ovs-vswitchd.ctl")
	if text, err := unixctl.Call(ctx, socket, "version"); err != nil || !strings.Contains(text, "Open vSwitch") {
		t.Errorf("version: %q, %v", text, err)
	}
	if text, err := unixctl.Call(ctx, socket, "ofproto/trace", "br-none", "arp"); err == nil || !strings.Contains(err.Error(), "br-none") {
		t.Errorf("a bridge that is not there: %q, %v", text, err)
	}
	if _, err := unixctl.Call(ctx, socket+"x", "version"); err == nil {
		t.Error("nobody listens, and that is no error")
	}
}
