package hostaccess

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

var wayOut = pipeline.Outside{ID: "hostcontivh0", MAC: [6]byte{2, 2, 172, 19, 0xff, 0xfe}, Prefix: netip.MustParsePrefix("172.19.0.0/16"), Prefix6: netip.MustParsePrefix("fd63:6f6e:7469:7601::/64")}

var closed = Closed{VXLANPort: 4789, Ports: []uint16{2379, 9999}, Nodes: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}}

func TestOurRulesAreATableOfOurOwn(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "nft add table ip contiv; nft add chain ip contiv theirs") // of another family
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	theirs := run(t, "nft list ruleset")
	var r rules
	expect := func(why string) {
		t.Helper()
		if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		got := run(t, "nft list table inet contiv")
		for _, part := range []string{"ip saddr 172.19.0.0/16 oifname != \"contivh0\"", "ip6 saddr fd63:6f6e:7469:7601::/64", "masquerade", "oifname \"contivh0\" ct state { invalid, new, untracked } drop", "maxseg size set rt mtu", "oifgroup 194 drop", "oifname \"inb01\" drop",
			"udp dport 4789 drop", "\tudp dport { 4790, 6081, 8472 } drop", "iifname != \"contivh0\" iifgroup != 194 accept", "iifgroup 194 ct state new add @has-many6", "\t\tip daddr @nodes udp dport { 4790, 6081, 8472 } drop", "ip6 daddr @nodes6 udp dport { 4790, 6081, 8472 } drop", "elements = { 2379, 9999 }", "elements = { 192.0.2.1 }", "elements = { 2001:db8::1 }"} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %s is missing:\n%s", why, part, got)
			}
		}
	}
	expect("at first")
	for _, change := range []string{"flush table inet contiv", "delete table inet contiv", "flush chain inet contiv enter", "add rule inet contiv enter accept",
		"insert rule inet contiv closed-here accept", "flush set inet contiv nodes", "delete element inet contiv control-ports '{ 9999 }'",
		"flush chain inet contiv leave-mss; nft add rule inet contiv leave-mss counter comment '\"segments that fit the way\"'"} {
		run(t, "nft "+change)
		expect(change)
	}
	if err := r.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.remove(t.Context()); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	if got := run(t, "nft list ruleset"); got != theirs {
		t.Errorf("left behind:\n%s", got)
	}
}

func TestServicesForHostsHaveRules(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	var r rules
	in := entrances{agent.Entrances{
		Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.80"), netip.MustParseAddr("2001:db8:80::1")},
		NodePorts: []agent.NodePort{{Protocol: 6, Port: 30080}, {Protocol: 17, Port: 30007}},
	}, wayOut, Everywhere()}
	for range 2 { // the second one finds nothing to do
		if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in)); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, "nft list table inet contiv")
	for _, part := range []string{"elements = { 198.51.100.80 }", "elements = { 2001:db8:80::1 }", "tcp . 30080", "udp . 30007",
		"fib daddr type local", "dnat ip to meta l4proto . th dport map @node-ports", "tcp . 30080 : 172.19.255.253", "dnat ip6 to meta l4proto . th dport map @node-ports6", "tcp . 30080 : fd63:6f6e:7469:7601::fffd", "ip daddr != 127.0.0.0/8",
		`oifname "contivh0" ip daddr @external accept`, `oifname "contivh0" ct status dnat ip daddr 172.19.255.0/24 accept`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is missing:\n%s", part, got)
		}
	}
	if accept, drop := strings.Index(got, "@external accept"), strings.Index(got, `oifname "contivh0" ct state { invalid, new, untracked } drop`); accept > drop {
		t.Errorf("services come behind what drops everything:\n%s", got)
	}
}

// Most audits find nothing: they start no program.
func TestNobodyIsAskedWhereNothingHasChanged(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	var r rules
	look := func() error {
		return errors.Join(r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)), r.inTheWay(t.Context()))
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	run(t, "nft add table ip theirs")
	if err := look(); err != nil {
		t.Fatal(err)
	}
	t.Run("no nft", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if err := look(); err != nil {
			t.Error(err)
		}
	})
	run(t, "nft flush table inet contiv")
	if err := look(); err != nil || !strings.Contains(run(t, "nft list table inet contiv"), "masquerade") {
		t.Errorf("what somebody has taken away is not there again: %v", err)
	}
}

// A host has packets of other software, many of them in tunnels.
func TestWhatNoEndpointSendsIsThroughWithOneLook(t *testing.T) {
	judges := 0
	for _, c := range tableFor(wayOut, closed, "inb01", 2000).chains {
		about := slices.IndexFunc(c.rules, func(r rule) bool { return !strings.HasPrefix(r.text, `iifname "contivh0"`) })
		if strings.HasPrefix(c.rules[0].text, `iifname != "contivh0" iifgroup != 194 accept`) {
			about, judges = 0, judges+1
		}
		if about == -1 && len(c.rules) > 1 {
			t.Errorf("%s: %d rules look at every packet of the host", c.name, len(c.rules))
		}
		if c.rules[0].text == `iifname != "contivh0" accept` {
			judges++
		}
	}
	if judges != 6 {
		t.Errorf("%d chains are for endpoints only, want those for what is closed and for shares, to this host and through it, for answers to it, and for private addresses", judges)
	}
}

func TestRulesOfOthersInTheWayAreNamed(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	if err := r.inTheWay(t.Context()); err != nil {
		t.Errorf("nobody's: %v", err)
	}
	run(t, "nft add table ip filter; nft add chain ip filter INPUT '{ type filter hook input priority filter; policy drop; }'; nft add chain ip filter FORWARD '{ type filter hook forward priority filter; policy drop; }'")
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("nft fails", func(t *testing.T) { // that is no proof of anything
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/nft", []byte("#!/bin/sh\n[ \"$2\" = chain ] && exit 1\nexec "+nft+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		if err := r.inTheWay(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "nft list chain ip filter FORWARD") {
			t.Errorf("got %v", err)
		}
	})
	if err := r.inTheWay(t.Context()); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "chain FORWARD of nftables table ip filter") {
		t.Errorf("got %v", err)
	}
	run(t, "nft add rule ip filter FORWARD iifname contivh0 accept")
	if err := r.inTheWay(t.Context()); err != nil {
		t.Errorf("let through: %v", err)
	}
}

// Kubernetes' own proxy drops invalid packets. The nft of our image cannot show such a condition of iptables.
func TestRulesWhoseConditionsAreNotShownAreNotInTheWay(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	run(t, "iptables-nft -N KUBE-FORWARD; iptables-nft -A FORWARD -m comment --comment 'kubernetes forwarding rules' -j KUBE-FORWARD; "+
		"iptables-nft -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP")
	for _, where := range []string{"", t.TempDir()} {
		if where != "" {
			t.Setenv("XTABLES_LIBDIR", where)
		}
		if err := new(rules).inTheWay(t.Context()); err != nil {
			t.Errorf("libraries of iptables in %q: %v", where, err)
		}
	}
	run(t, "iptables-nft -P FORWARD DROP")
	if err := new(rules).inTheWay(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a policy that drops: %v", err)
	}
}

// Firewalld's chains accept packets that no rule matches, and end with a rule that matches all.
func TestChainsThatEndWithADropAreInTheWay(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	const forward = "nft flush ruleset; nft add table inet theirs; nft add chain inet theirs FWD '{ type filter hook forward priority 10; policy accept; }'; " +
		"nft add chain inet theirs ZONES; nft add chain inet theirs OWN; nft add rule inet theirs FWD ct state established accept; " +
		"nft add rule inet theirs FWD jump ZONES; nft add rule inet theirs ZONES iifname vmap '{ \"eth7\" : goto OWN }'; "
	for what, c := range map[string]struct {
		rules  string
		passes bool
	}{
		"nothing is dropped":                {"true", true},
		"a part is dropped":                 {"nft add rule inet theirs FWD ct state invalid drop", true},
		"everything is rejected":            {"nft add rule inet theirs FWD reject with icmpx type admin-prohibited", false},
		"everything is dropped":             {"nft add rule inet theirs FWD counter log prefix '\"in drop \"' level info drop comment '\"jump over\"'", false},
		"with a number, as iptables has it": {"nft add rule inet theirs FWD counter reject", false},
		"what is left is let through":       {"nft add rule inet theirs FWD accept; nft add rule inet theirs FWD drop", true},
		"a policy that is not reached":      {"nft add chain inet theirs FWD '{ policy drop; }'; nft add rule inet theirs FWD accept", true},
		"a zone has the interface":          {"nft add rule inet theirs FWD reject; nft add rule inet theirs OWN iifname contivh0 accept", true},
		"a chain that nobody calls":         {"nft add rule inet theirs FWD reject; nft add chain inet theirs ALONE; nft add rule inet theirs ALONE iifname contivh0 accept", false},
		"a chain has let all of it through": {"nft add chain inet theirs ALL; nft add rule inet theirs ALL accept; nft add rule inet theirs FWD goto ALL; nft add rule inet theirs FWD reject", true},
		"a chain drops all of it":           {"nft add chain inet theirs ALL; nft add rule inet theirs ALL drop; nft add rule inet theirs FWD jump ALL; nft add rule inet theirs FWD accept", false},
		"a chain is left without a verdict": {"nft add chain inet theirs ALL; nft add rule inet theirs FWD goto ALL; nft add rule inet theirs FWD reject", true},
		"what is for the host":              {"nft add chain inet theirs IN '{ type filter hook input priority 10; policy accept; }'; nft add rule inet theirs IN drop", true},
		"what a bridge forwards":            {"nft add table bridge theirs; nft add chain bridge theirs FWD '{ type filter hook forward priority 10; policy drop; }'", true},
	} {
		run(t, forward+c.rules)
		var r rules
		err := r.inTheWay(t.Context())
		if c.passes != (err == nil) || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: says %v; rules:\n%s", what, err, run(t, "nft list ruleset"))
		}
	}
}

// nothingWanted is an agent of a node whose host is in no network.
type nothingWanted struct{ Datapath }

func (nothingWanted) HostAccess() (agent.HostAccess, error) { return agent.HostAccess{}, nil }
func (nothingWanted) Detach(context.Context, string) error  { return nil }

func TestTheTrackerOfAKernelDatapathTakesNoAnswerForInvalid(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "nft add table inet tracked; nft add chain inet tracked c '{ type filter hook input priority 0; }'; nft add rule inet tracked c ct state new") // loads the tracker
	t.Cleanup(func() { run(t, "nft delete table inet tracked") })
	settings := []string{liberalWindow}
	if read(liberalReset) != "" { // since Linux 5.14
		settings = append(settings, liberalReset)
	}
	set := func(value string) {
		t.Helper()
		for _, setting := range settings {
			if err := write(setting, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := map[string]string{}
	for _, setting := range settings {
		before[setting] = read(setting)
	}
	t.Cleanup(func() {
		for setting, value := range before {
			if err := write(setting, value); err != nil {
				t.Error(err)
			}
		}
	})
	set("0")
	userspace := true
	m := New(Config{Datapath: nothingWanted{}, Switch: Switch{Netdev: func() bool { return userspace }}, StateDir: t.TempDir()})
	are := func(want, why string) {
		t.Helper()
		for _, setting := range settings {
			if got := read(setting); got != want {
				t.Errorf("%s: %s is %s, want %s", why, setting, got, want)
			}
		}
	}
	look := func(want, why string) {
		t.Helper()
		if err := m.look(t.Context()); err != nil {
			t.Errorf("%s: %v", why, err)
		}
		are(want, why)
	}
	look("0", "a datapath in userspace has a tracker of its own")
	userspace = false
	look("1", "a datapath in the kernel")
	set("0") // somebody, once more
	look("1", "a datapath in the kernel, looked at again")
	if err := PutSettingsBack(m.StateDir); err != nil {
		t.Fatal(err)
	}
	are("0", "settings put back")

	set("1")
	m.StateDir = t.TempDir()
	look("1", "the host's own settings")
	if known, err := recall(m.StateDir); len(known) > 0 || err != nil {
		t.Errorf("what was not changed is remembered: %v, %v", known, err)
	}
}

// The kernel may load its tracker only with the first bridge, and an older one lacks the second setting.
func TestAKernelThatLacksSettingsOfTheTracker(t *testing.T) {
	m := New(Config{StateDir: t.TempDir()})
	if err := m.trackLiberally("netfilter/nothing", "netfilter/nothing_either"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "netfilter/nothing") {
		t.Errorf("no tracker: %v", err)
	}
	if known, err := recall(m.StateDir); len(known) > 0 || err != nil {
		t.Errorf("no tracker: %v is remembered, %v", known, err)
	}
	testkit.NeedsMachine(t)
	const liberal = "netfilter/nf_conntrack_tcp_be_liberal"
	run(t, "sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=0")
	if err := m.trackLiberally(liberal, "netfilter/nothing"); err != nil || read(liberal) != "1" {
		t.Errorf("an older kernel: %v, the setting is %q", err, read(liberal))
	}
}

func TestSettingsAreRememberedBeforeTheyAreChanged(t *testing.T) {
	testkit.NeedsMachine(t)
	m := New(Config{StateDir: t.TempDir() + "/host"})
	run(t, "ip link add d0 type bridge; sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0 net.ipv6.conf.d0.accept_ra=1 net.ipv4.conf.d0.forwarding=1")
	t.Cleanup(func() { run(t, "ip link del d0") })
	const settings = "sysctl net.ipv4.ip_forward net.ipv4.conf.d0.forwarding net.ipv6.conf.all.forwarding net.ipv6.conf.d0.accept_ra"
	for range 2 {
		if err := m.forward(true); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(run(t, settings+" | cut -d= -f2")), " "); got != "1 1 1 2" {
			t.Errorf("settings: %s", got)
		}
		run(t, "sysctl -qw net.ipv4.ip_forward=0") // somebody, once more
	}
	known, err := recall(m.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"ipv4/ip_forward": "0", "ipv4/conf/d0/forwarding": "1", "ipv4/conf/lo/forwarding": "0", "ipv6/conf/all/forwarding": "0", "ipv6/conf/d0/accept_ra": "1"} {
		if known[setting] != want {
			t.Errorf("%s was %q, want %s", setting, known[setting], want)
		}
	}
	if err := PutSettingsBack(m.StateDir); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(run(t, settings+" | cut -d= -f2")), " "); got != "0 1 0 1" {
		t.Errorf("settings put back: %s", got)
	}
	if changed, err := ChangedSettings(m.StateDir); len(changed) > 0 || err != nil {
		t.Errorf("not put back: %v, %v", changed, err)
	}
	// After another boot the settings are those of the host's own configuration.
	for _, file := range []string{`{"boot":"another","settings":{"ipv4/ip_forward":"1"}}`, `{"ipv4/ip_forward":"1"}`} {
		if err := os.WriteFile(m.StateDir+"/"+memoryFile, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if known, err := recall(m.StateDir); len(known) > 0 || err != nil {
			t.Errorf("of another boot: %v, %v", known, err)
		}
	}
	if err := os.WriteFile(m.StateDir+"/"+memoryFile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.forward(true); err == nil {
		t.Error("settings are changed although nobody knows any more what they were")
	}
}

// onlyInfra is an agent of a node whose host is in an infra network, and no egress for endpoints.
type onlyInfra struct {
	Datapath
	networks []agent.HostNetwork
	open     bool // what controls the cluster was open when the interface was made
}

func (d *onlyInfra) HostAccess() (agent.HostAccess, error) {
	return agent.HostAccess{Networks: d.networks}, nil
}
func (*onlyInfra) Detach(context.Context, string) error { return nil }

// PreparePort is where the interface is made. The test needs none.
func (d *onlyInfra) PreparePort(context.Context, string, int) (drivers.Port, error) {
	out, _ := exec.Command("nft", "list", "chain", "inet", "contiv", "closed-here").Output()
	d.open = !strings.Contains(string(out), "iifgroup != 194 accept")
	return drivers.Port{}, fault.New(fault.Unavailable, "no port in this test")
}

// Endpoints reach a host in infra networks whether or not it is their egress.
func TestInfraNetworksAreClosedWithoutAWayOutToo(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	network := agent.HostNetwork{Network: mastercfg.CfgNetworkState{ID: "contivh1.blue", Tenant: "blue", NetworkName: "contivh1", NwType: "infra"},
		Endpoint: &mastercfg.CfgEndpointState{}}
	node := &onlyInfra{networks: []agent.HostNetwork{network}}
	m := New(Config{Datapath: node, Switch: Switch{Netdev: func() bool { return true }}, Barred: Barred{Closed: closed, RouterLink: "inb01"}, StateDir: t.TempDir(), HostLabel: "h1"})
	looks := func(why string, want bool) {
		t.Helper()
		if err := m.look(t.Context()); !fault.Is(err, fault.Unavailable) && len(node.networks) > 0 {
			t.Errorf("%s: %v", why, err)
		}
		rules := run(t, "nft list ruleset")
		if got := strings.Contains(rules, "tcp dport @control-ports drop"); got != want {
			t.Errorf("%s: control ports are closed: %v\n%s", why, got, rules)
		}
	}
	looks("at first", true)
	if node.open {
		t.Error("the host had its interface before the rules")
	}
	run(t, "nft flush ruleset")
	looks("somebody has removed the rules", true)
	node.networks = nil
	clear(m.joined) // without a netmaster to release the endpoint
	looks("the network is gone", false)
	node.networks = []agent.HostNetwork{network}
	looks("it is back", true)
	if node.open {
		t.Error("the host had its interface again before the rules")
	}
	// A restarted agent finds rules of a version without rules for these networks.
	run(t, "nft flush ruleset; nft add table inet contiv; nft add chain inet contiv closed-here '{ type filter hook input priority filter; }'; nft add rule inet contiv closed-here iifname != contivh0 accept")
	m = New(m.Config)
	looks("another agent", true)
}
