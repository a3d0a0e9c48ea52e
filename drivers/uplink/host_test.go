package uplink_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers/uplink"
)

// aHost gives up0 an address of each family, and routes; its router is outside.
func aHost(t *testing.T) *node {
	n := newNode(t)
	n.outside.Vsctl("add-port", "sw", "to-up0", "--", "add-port", "sw", "to-up1")
	n.outside.Vsctl("add-port", "sw", "router", "--", "set", "interface", "router", "type=internal")
	n.outside.Exec("ip", "link", "set", "router", "up")
	n.outside.Exec("ip", "address", "add", "198.51.100.1/24", "dev", "router")
	n.outside.Exec("ip", "address", "add", "2001:db8:7::1/64", "dev", "router", "nodad")
	n.configureHost()
	return n
}

// configureHost applies the host's own configuration.
func (n *node) configureHost() {
	n.t.Helper()
	n.Exec("ip", "link", "set", "up0", "up")
	n.Exec("ip", "address", "add", "198.51.100.7/24", "dev", "up0", "label", "up0:host")
	n.Exec("ip", "address", "add", "2001:db8:7::7/64", "dev", "up0", "nodad")
	n.Exec("ip", "route", "add", "default", "via", "198.51.100.1")
	n.Exec("ip", "route", "add", "203.0.113.0/24", "dev", "up0", "src", "198.51.100.7", "metric", "42")
	n.Exec("ip", "route", "add", "192.0.2.0/24", "via", "203.0.113.1", "table", "77", "onlink", "dev", "up0")
	n.Exec("ip", "-6", "route", "add", "default", "via", "2001:db8:7::1")
}

// picture returns the host's addresses, routes and settings.
func (n *node) picture() string {
	n.t.Helper()
	return n.Exec("sh", "-ec", `
ip -o address show scope global | sed 's/^[0-9]*: //' | grep -v '^host ' || true
ip -4 route show table all | grep -v 'table local\|dev host\|dev pods' | sed 's/ linkdown//'
ip -6 route show table all | grep -v 'table local\|fe80\|multicast' | sed 's/ pref medium//'
grep . /proc/sys/net/ipv4/conf/up?/rp_filter /proc/sys/net/ipv6/conf/up?/disable_ipv6 || true`)
}

// onBridge returns the expected picture when the host is reached by the bridge.
func onBridge(before string) string {
	var all []string
	for line := range strings.Lines(before) {
		if !strings.HasPrefix(line, "/proc") {
			line = strings.ReplaceAll(line, "up0:host", uplink.DefaultBridge) // the label would be too long
			line = strings.ReplaceAll(line, "up0", uplink.DefaultBridge)
		}
		all = append(all, line)
	}
	return strings.Join(all, "")
}

func (n *node) hostReaches(address string) {
	n.t.Helper()
	n.eventually("the host reaches "+address, func() bool {
		out, err := n.Try("ping", "-c2", "-i0.01", "-W1", "-n", "-q", address)
		return err == nil && !strings.Contains(out, "dup")
	})
}

func (n *node) isOnBridge(when string, before string) {
	n.t.Helper()
	want := strings.Join(strings.Split(onBridge(before), "/proc")[:1], "")
	defer func() {
		if n.t.Failed() {
			n.t.Logf("%s: want\n%s\nhave\n%s", when, want, n.picture())
		}
	}()
	n.eventually("the host is on the bridge "+when, func() bool { return strings.HasPrefix(n.picture(), want) })
	n.hostReaches("198.51.100.1")
	n.hostReaches("2001:db8:7::1")
	n.reaches(when)
}

func TestTheHostKeepsItsAddressesWhileItsLinkIsAnUplink(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	n.hostReaches("198.51.100.1")
	flood := n.outside.Command("ping", "-i0.01", "-n", "-q", "-w60", "198.51.100.7")
	var summary strings.Builder
	flood.Stdout = &summary
	if err := flood.Start(); err != nil {
		t.Fatal(err)
	}
	b, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	n.says(b, "")
	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0")
	n.eventually("an address that came later follows", func() bool {
		return strings.Contains(n.Exec("ip", "address", "show", "dev", uplink.DefaultBridge), "198.51.100.8/24")
	})
	n.Exec("ip", "address", "del", "198.51.100.8/24", "dev", uplink.DefaultBridge)
	n.eventually("one that goes is forgotten", func() bool {
		data, err := os.ReadFile(n.record())
		return err == nil && !strings.Contains(string(data), "198.51.100.8")
	})
	stop()
	if err := flood.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := flood.Wait(); err != nil {
		t.Error(err)
	}
	var sent, received int
	line := summary.String()[strings.Index(summary.String(), "---\n")+4:]
	if _, err := fmt.Sscanf(line, "%d packets transmitted, %d received", &sent, &received); err != nil || received == 0 || sent-received > 5 {
		t.Errorf("while the addresses moved: %s, %v", line, err)
	}

	// Without netplugin, after a kill of the switch.
	n.KillVswitchd()
	n.StartVswitchd()
	n.isOnBridge("without a keeper", before)

	// Killed during the move.
	n.spoilRecord(unmoved)
	n.Exec("ip", "address", "flush", "dev", uplink.DefaultBridge)
	b, stop = n.keep("", "up0")
	n.isOnBridge("after a crash", before)
	n.Vsctl("del-br", uplink.DefaultBridge)
	n.isOnBridge("after somebody removed the bridge", before)
	n.says(b, "")
	stop()

	lines, err := uplink.Moved(n.config(""))
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], "uplink up0: the host's 198.51.100.7/24") {
		t.Errorf("moved: %q, %v", lines, err)
	}
	for range 2 { // the second time there is nothing to do
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := uplink.Undo(ctx, n.config("")); err != nil {
			t.Fatal(err)
		}
		n.hasBack(before)
		n.hostReaches("198.51.100.1")
		n.hostReaches("2001:db8:7::1")
	}
	if _, err := os.Stat(n.record()); !os.IsNotExist(err) {
		t.Errorf("the record is left: %v", err)
	}
}

func TestAnUplinkThatIsNoneAnyMoreGetsTheHostsAddressesBack(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep(uplink.ActiveBackup, "up1", "up0")
	n.isOnBridge("by a bond", before)
	stop()
	b, _ := n.keep("", "up1")
	n.hasBack(before)
	n.hostReaches("198.51.100.1")
	n.reaches("by the other link")
	n.says(b, "")
}

// A driver that is loaded again makes another link of the same name. Addresses and routes that the host gets there
// use the new link, also where the record has them for the old one.
func TestAnUplinkThatComesBackAsAnotherLinkLeavesTheHostItsRoutes(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	b, _ := n.keep("", "up0")
	n.isOnBridge("at first", before)
	n.Exec("ip", "link", "delete", "up0")
	n.says(b, "uplink up0: there is no such link")
	n.outside.Vsctl("del-port", "to-up0")
	n.wire("up0")
	n.outside.Vsctl("add-port", "sw", "to-up0")
	n.reaches("by the new link")
	n.Exec("ip", "address", "add", "198.51.100.7/24", "dev", "up0")
	n.Exec("ip", "route", "replace", "default", "via", "198.51.100.1", "dev", "up0")
	n.isOnBridge("by the new link", before)
	n.says(b, "")
}

func TestAddressesThatCannotBeWrittenDownStay(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	n.state = "/proc/no-such-directory"
	b, _ := n.keep("", "up0")
	n.says(b, "the host's addresses on uplinks cannot be written down")
	if after := n.picture(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	n.hostReaches("198.51.100.1")
}

// Addresses and routes from a router or a lease keep their lifetimes, and renewals at the link are applied to the
// local port. The protocol of a route is kept.
func TestWhatTheHostHasForAWhileIsMovedForThatWhile(t *testing.T) {
	n := aHost(t)
	n.Exec("ip", "-6", "route", "replace", "default", "via", "2001:db8:7::1", "dev", "up0", "proto", "ra", "metric", "1024", "expires", "900")
	n.Exec("ip", "-6", "route", "add", "2001:db8:99::/64", "via", "2001:db8:7::1", "dev", "up0", "proto", "ra", "metric", "77", "expires", "800")
	n.Exec("ip", "route", "add", "203.0.114.0/24", "via", "198.51.100.1", "proto", "bird")
	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0", "valid_lft", "1000", "preferred_lft", "900")
	b, stop := n.keep("", "up0")
	// lasts waits for the wanted lifetimes, in seconds.
	lasts := func(want ...string) {
		t.Helper()
		n.eventually(strings.Join(want, ", "), func() bool {
			got := n.Exec("sh", "-ec", "ip -6 route show; ip route show; ip -o address show; cd /proc/sys/net/ipv6/conf; grep . */accept_ra")
			return !slices.ContainsFunc(want, func(part string) bool { return !regexp.MustCompile(part).MatchString(got) })
		})
	}
	lasts(`default via 2001:db8:7::1 dev contivUplink proto ra metric 1024 expires [89]..sec`,
		`2001:db8:99::/64 via 2001:db8:7::1 dev contivUplink proto ra metric 77 expires [78]..sec`,
		`203.0.114.0/24 via 198.51.100.1 dev contivUplink proto bird`,
		`198.51.100.8/24 .* valid_lft [89]..sec preferred_lft 8..sec`, `contivUplink/accept_ra:2`)
	n.says(b, "")

	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0", "valid_lft", "5000", "preferred_lft", "4000")
	lasts(`contivUplink +inet 198.51.100.8/24 .* valid_lft 4...sec preferred_lft 3...sec`)
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := uplink.Undo(ctx, n.config("")); err != nil {
		t.Fatal(err)
	}
	lasts(`default via 2001:db8:7::1 dev up0 proto ra metric 1024 expires [89]..sec`, `up0 +inet 198.51.100.8/24 .* valid_lft 4...sec preferred_lft 3...sec`)
}

// hasBack waits until the host has its former configuration.
func (n *node) hasBack(before string) {
	n.t.Helper()
	defer func() {
		if n.t.Failed() {
			n.t.Logf("before:\n%s\nafter:\n%s", before, n.picture())
		}
	}()
	n.eventually("the host has its link back", func() bool { return n.picture() == before })
}

func (n *node) record() string { return filepath.Join(n.state, "uplink.json") }

// unmoved changes a record so that nothing is on the local port yet.
func unmoved(r map[string]any) {
	for _, link := range r["links"].(map[string]any) {
		delete(link.(map[string]any), "local")
	}
}

func (n *node) spoilRecord(change func(map[string]any)) {
	n.t.Helper()
	data, err := os.ReadFile(n.record())
	var r map[string]any
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil {
		change(r)
		if data, err = json.Marshal(r); err == nil {
			err = os.WriteFile(n.record(), data, 0o600)
		}
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// An ovs-vswitchd that has to create the local port again opens all links before it sets that port's MAC, for
// which it sets the port down.
func TestTheHostKeepsItsRoutesWhenTheSwitchMakesTheLocalPortAnew(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	b, _ := n.keep("", "up0")
	n.isOnBridge("at first", before)
	for i := range 100 { // which it opens in between
		n.Vsctl("add-port", uplink.DefaultBridge, fmt.Sprint("tap", i), "--", "set", "interface", fmt.Sprint("tap", i), "type=internal")
	}
	for i := range 25 {
		n.KillVswitchd()
		n.Exec("ip", "link", "delete", uplink.DefaultBridge)
		n.StartVswitchd()
		n.isOnBridge(fmt.Sprintf("made anew for the %d. time", i+1), before)
		n.hostReaches("198.51.100.1")
	}
	n.says(b, "")
}
