package daemon

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
)

// A member of a cluster of an earlier version uses plain HTTP until there are CAs, whatever its flags are. The
// keeper of its space must use its present URL.
func TestAMemberThatIsStillPlainIsKnownWhereItIs(t *testing.T) {
	testkit.NeedsMachine(t)
	secured := func() string { return strings.Replace(testkit.FreeURL(), "http:", "https:", 1) }
	m := newMember(&embedded.Config{Dir: t.TempDir(), Name: "m", ClientURL: secured(), PeerURL: secured(), NoFsync: true, Log: testkit.Quiet()}, nil, testkit.Quiet())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.startPlain(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	url := spaceMember{m}.URL()
	db, err := objdb.Open(objdb.Config{Endpoints: []string{plain(m.cfg.ClientURL)}, RequestTimeout: time.Minute, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	testkit.Eventually(t, time.Minute, "its room is told under that URL", func() bool {
		all, err := db.Space(ctx)
		return err == nil && len(all) == 1 && all[0].URL == url
	})
	if missing, err := (spaceMember{m}).Missing(ctx); err != nil || len(missing) != 0 {
		t.Errorf("alone, %q are missing, %v", missing, err)
	}
}
