package uplink_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers/uplink"
)

func (n *node) undo() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 60*time.Second)
	defer cancel()
	if err := uplink.Undo(ctx, n.config("")); err != nil {
		n.t.Fatal(err)
	}
	if _, err := os.Stat(n.record()); !os.IsNotExist(err) {
		n.t.Errorf("the record is left: %v", err)
	}
}

// former runs one until the test ends.
func (n *node) former() *uplink.Former {
	former := uplink.NewFormer(n.config(""))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- former.Run(ctx) }()
	n.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			n.t.Errorf("Run returned %v", err)
		}
	})
	return former
}

// A client that was started on the link adds its address first and its routes later:
// the address must be where the routes are added.
func TestAClientOnAnUplinkGetsItsRoutes(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("sh", "-ec", "ip address flush dev up0 scope global; ip -6 route flush default")
	b, _ := n.keep("", "up0")
	n.says(b, "")
	n.reaches("at first")
	n.Exec("ip", "address", "add", "198.51.100.7/24", "dev", "up0")
	n.Exec("sleep", "0.5") // of the client, which asks whether somebody else has the address
	n.Exec("ip", "route", "add", "default", "via", "198.51.100.1", "dev", "up0")
	n.eventually("address and route follow", func() bool {
		return strings.Contains(n.Exec("ip", "route", "show", "default"), "via 198.51.100.1 dev "+uplink.DefaultBridge)
	})
	n.hostReaches("198.51.100.1")
	n.says(b, "")
}

// The host's own configuration may give the local port its addresses.
func TestUndoKeepsWhatTheHostHasAtTheBridge(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("sh", "-ec", "ip address flush dev up0 scope global; ip -6 route flush default")
	b, stop := n.keep("", "up0")
	n.says(b, "")
	n.reaches("at first")
	n.Exec("ip", "address", "add", "198.51.100.7/24", "dev", uplink.DefaultBridge)
	n.Exec("ip", "link", "set", uplink.DefaultBridge, "up")
	n.Exec("ip", "route", "add", "default", "via", "198.51.100.1")
	n.hostReaches("198.51.100.1")
	stop()
	n.undo()
	if have := n.Exec("ip", "route", "show", "default"); !strings.Contains(have, "via 198.51.100.1 dev up0") {
		t.Errorf("default route %q", have)
	}
	n.hostReaches("198.51.100.1")
}

// An agent that is started without uplinks gives the last one back.
func TestTheLastUplinkGetsBackWhatTheHostHad(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	stop()
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(n.state, n.state, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	writable := sync.OnceFunc(func() {
		if err := unix.Unmount(n.state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(writable)
	former := n.former()
	n.eventually("it is told what is left", func() bool { return strings.Contains(former.Problem(), "read-only file system") })
	writable()
	n.eventually("nothing is left", func() bool {
		_, err := os.Stat(n.record())
		return former.Problem() == "" && os.IsNotExist(err)
	})
	n.hasBack(before)
	n.hostReaches("198.51.100.1")
	if left := n.Vsctl("list-br"); strings.Contains(left, uplink.DefaultBridge) {
		t.Errorf("bridges %q", left)
	}
}

// Addresses that are back on their link are the host's again, also while another link cannot get back its own.
func TestALinkThatHasItsAddressesBackIsLeftAlone(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("ip", "link", "set", "up1", "up")
	n.Exec("ip", "address", "add", "192.0.2.7/28", "dev", "up1")
	n.Exec("ip", "route", "add", "203.0.115.0/24", "via", "192.0.2.1")
	before := n.picture()
	_, stop := n.keep(uplink.ActiveBackup, "up0", "up1")
	n.eventually("the host is on the bridge", func() bool {
		return n.picture() != before && !strings.Contains(n.Exec("ip", "address"), "scope global up")
	})
	stop()
	n.spoilRecord(func(r map[string]any) {
		unmoved(r) // the local port has nothing newer
		for _, one := range r["links"].(map[string]any)["up1"].(map[string]any)["routes"].([]any) {
			one.(map[string]any)["Gw"] = "192.0.2.33" // out of reach
		}
	})
	former := n.former()
	n.eventually("it is told what is left", func() bool { return strings.Contains(former.Problem(), "uplink up1") })
	address := func() string { return n.Exec("ip", "-4", "-o", "address", "show", "dev", "up0") }
	n.eventually("up0 has its address back", func() bool { return strings.Contains(address(), "198.51.100.7") })
	n.Exec("ip", "address", "del", "198.51.100.7/24", "dev", "up0")
	n.Exec("ip", "address", "add", "192.0.2.34/28", "dev", "up1") // the gateway can be reached
	n.eventually("nothing is left", func() bool {
		_, err := os.Stat(n.record())
		return former.Problem() == "" && os.IsNotExist(err)
	})
	if have := address(); have != "" {
		t.Errorf("up0 has again what was removed there: %s", have)
	}
	if have := n.Exec("ip", "route", "show", "203.0.115.0/24"); !strings.Contains(have, "via 192.0.2.33 dev up1") {
		t.Errorf("route of up1 %q", have)
	}
}

func TestUndoGoesOnWithoutALinkThatHasGone(t *testing.T) {
	n := aHost(t)
	b, stop := n.keep("", "up0")
	n.says(b, "")
	n.hostReaches("198.51.100.1")
	stop()
	n.Exec("ip", "link", "delete", "up0")
	n.undo()
}

// The other link is a port of a foreign bridge: its part of the record waits.
func TestALinkThatIsNoPortKeepsNoOtherWaiting(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep(uplink.ActiveBackup, "up0", "up1")
	n.isOnBridge("at first", before)
	stop()
	n.spoilRecord(func(r map[string]any) {
		unmoved(r)
		links := r["links"].(map[string]any)
		links["up1"] = map[string]any{"mac": "", "index": 0}
	})
	n.Exec("ip", "address", "flush", "dev", uplink.DefaultBridge)
	n.Vsctl("del-port", "uplinkPort")
	n.AddBridge("br-other")
	n.Vsctl("add-port", "br-other", "up1")
	n.keep(uplink.ActiveBackup, "up0", "up1")
	n.isOnBridge("without up1", before)
}

// A keeper that cannot record the former settings, or is killed meanwhile, has not changed them.
func TestSettingsAreWrittenDownBeforeTheyAreChanged(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	stop()
	n.spoilRecord(func(r map[string]any) {
		unmoved(r)
		delete(r["links"].(map[string]any)["up0"].(map[string]any), "settings")
	})
	setting := "net.ipv4.conf.up0.rp_filter"
	n.Exec("sysctl", "-w", setting+"=2")
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(n.state, n.state, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(n.state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b, stop := n.keep("", "up0")
	n.says(b, "read-only file system")
	stop()
	if now := n.Exec("sysctl", "-n", setting); now != "2\n" {
		t.Errorf("%s = %s", setting, now)
	}
}
