package embedded_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// As when a machine goes back to a snapshot: what the member has acknowledged since then is missing.
func TestAMemberWhoseDataHasGoneBackSaysWhatToDo(t *testing.T) {
	c := newTrio(t)
	db := trying(t, c.cfgs["a"].ClientURL, c.cfgs["b"].ClientURL)
	write := func(value string) {
		testkit.Eventually(t, time.Minute, "written", func() bool { return put(db, value) == nil })
	}
	write("1")
	cfg, saved := c.cfgs["c"], filepath.Join(t.TempDir(), "saved")
	testetcd.Stop(t, c.members["c"])
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(cfg.Dir, "member"), saved).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.start(t, "c")
	write("2")
	testkit.Eventually(t, time.Minute, "c has it", func() bool { return put(trying(t, cfg.ClientURL), "3") == nil })
	testetcd.Stop(t, c.members["c"])
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "member")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(saved, filepath.Join(cfg.Dir, "member")); err != nil {
		t.Fatal(err)
	}
	member := start(t, within(time.Second), cfg)
	select {
	case err := <-member.Err():
		for _, want := range []string{"has gone back", "member remove"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, without %q", err, want)
			}
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	write("4") // the others go on
}
