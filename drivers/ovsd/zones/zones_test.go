package zones

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// answering runs the control socket of an ovs-vswitchd; answer returns the output of a command.
func answering(t *testing.T, answer func(command string, args []string) string) vswitchd.Control {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "ovs-vswitchd.1.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-served })
	serve := func(conn net.Conn) {
		defer conn.Close()
		for in := json.NewDecoder(conn); ; {
			var r struct {
				ID     any
				Method string
				Params []string
			}
			if err := in.Decode(&r); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				return
			}
			if err := json.NewEncoder(conn).Encode(map[string]any{"id": r.ID, "error": nil, "result": answer(r.Method, r.Params)}); err != nil {
				t.Error(err)
			}
		}
	}
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			serve(conn)
		}
	}()
	return vswitchd.Control{RunDir: dir}
}

// A tenant may be removed, and another program may set a limit, while an audit runs: limits read before the
// removal are not removed.
func TestATenantThatGoesDuringAnAuditTakesNoLimitOfOthersAlong(t *testing.T) {
	const limit = 50000
	blue, red := pipeline.Network{ID: "web.blue", VRF: 1, Tenant: "blue"}, pipeline.Network{ID: "web.red", VRF: 2, Tenant: "red"}
	given, text := limits{}, ""
	for _, n := range []pipeline.Network{blue, red} {
		for _, zone := range pipeline.Zones(n.VRF) {
			given[zone] = limit
			text += fmt.Sprintf("zone=%d,limit=%d,count=0\n", zone, limit)
		}
	}
	ids := map[string]string{noteKey: given.String()}
	var b *Bridge
	var changed []string
	control := answering(t, func(command string, args []string) string {
		switch command {
		case "dpctl/ct-get-limits":
			b.Replaced(red, nil) // from now on a limit may be another program's
			return text
		case "dpctl/ct-get-maxconns":
			return fmt.Sprint(tablePart * limit)
		}
		changed = append(changed, command+" "+strings.Join(args, " "))
		return ""
	})
	b = new(Tenants).Add(Config{AuditInterval: time.Hour, Control: control, Datapath: func() string { return vswitchd.Netdev }, Mine: func() bool { return true },
		ExternalIDs: func() map[string]string { return ids },
		Note:        func(_ context.Context, key, text string) error { ids[key] = text; return nil }})
	b.Replaced(nil, blue)
	b.Replaced(nil, red)
	b.Complete()
	if err := b.setLimits(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if len(changed) > 0 {
		t.Errorf("it did %q", changed)
	}
	if ids[noteKey] != given.String() {
		t.Errorf("the row says %q, want %q", ids[noteKey], given)
	}
	if err := b.setLimits(t.Context(), true); err != nil { // the next audit sees the removal
		t.Fatal(err)
	}
	if len(changed) != 1 || ids[noteKey] != "" {
		t.Errorf("the next audit did %q, and the row says %q", changed, ids[noteKey])
	}
}
