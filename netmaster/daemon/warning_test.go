package daemon

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

const openWarning = "the cluster is open: whoever reaches a netmaster may do everything; netctl security init begins to close it"

// An open cluster logs a warning each hour, any other none.
func TestAnOpenClusterIsWarnedOfEachHour(t *testing.T) {
	cfg, err := Config{}.completed()
	if err != nil {
		t.Fatal(err)
	}
	for is, want := range map[mastercfg.SecurityMode]int{mastercfg.SecurityOpen: 24, mastercfg.SecurityPermissive: 0, mastercfg.SecurityEnforced: 0, "": 0} {
		synctest.Test(t, func(t *testing.T) { // its clock advances when all goroutines are blocked
			log, told := testkit.Recorded()
			d := &Daemon{cfg: cfg, log: log, mode: newMode(log)}
			if is != "" {
				d.mode.set(is)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour+time.Minute)
			defer cancel()
			every(ctx, d.cfg.WarnEvery, d.warnOpen, func(err error) { t.Error(err) })
			if got := strings.Count(told.String(), openWarning); got != want || want > 0 && !strings.Contains(told.String(), "level=warning") {
				t.Errorf("mode %q: told %d times in a day, want %d:\n%s", is, got, want, told.String())
			}
		})
	}
}

// The leader logs that the cluster is open, and the metric shows it for as long as it is.
func TestWhoLeadsAnOpenClusterSaysSo(t *testing.T) {
	storetest.Open(t)
	log, told := testkit.Recorded()
	n := run(t, func(c *Config) {
		c.Log, c.WarnEvery = log, 10*time.Millisecond
		c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Name: "m1"}
	})
	metric := func() string {
		for line := range strings.Lines(n.ok("GET", "/metrics", "")) {
			if value, is := strings.CutPrefix(line, "netmaster_security_open "); is {
				return strings.TrimSpace(value)
			}
		}
		return "none"
	}
	testkit.Eventually(t, time.Minute, "the leader warns", func() bool { return strings.Count(told.String(), openWarning) > 2 })
	if is := metric(); is != "1" {
		t.Errorf("netmaster_security_open of an open cluster: %s", is)
	}
	if code, answer, err := n.try("POST", mastercfg.SecurityPath+"/init", ""); err != nil || code != http.StatusOK || !strings.Contains(answer, `"permissive"`) {
		t.Fatalf("%d %s, %v", code, answer, err)
	}
	if is := metric(); is != "0" {
		t.Errorf("netmaster_security_open of a closed one: %s", is)
	}
}
