package netctl

import (
	"strings"
	"testing"
)

// Faults of Open vSwitch are named if the version has them, or may have them: distributions fix them without
// another release.
func TestFaultsOfTheSwitchAreNamed(t *testing.T) {
	const both = "CVE-2023-1668, CVE-2023-5366"
	may := func(release, which, of string) string {
		return "ok    openvswitch n1: WARNING, " + release + " had " + which + " when it was released; " + of + "\n"
	}
	for _, c := range []struct{ release, installed, says string }{
		{"", "", ""}, // an agent of an earlier version
		{"3.1.0", "3.1.0-2+deb12u1", ""},
		{"3.1.0", "3.1.0-2+deb12u2", ""},
		{"3.1.0", "3.1.0-2", "FAIL  openvswitch n1: 3.1.0-2 has CVE-2023-5366; upgrade it"},
		{"3.1.0", "3.1.0-1", "FAIL  openvswitch n1: 3.1.0-1 has " + both + "; upgrade it"},
		{"3.1.0", "", may("3.1.0", both, "its package is not known")},
		{"2.17.5", "2.17.5-0ubuntu0.22.04.1", may("2.17.5", both, "it is not known whether 2.17.5-0ubuntu0.22.04.1 has their mends")},
		{"2.17.6", "", may("2.17.6", "CVE-2023-5366", "its package is not known")},
		{"2.17.9", "", ""}, {"2.17.12", "", ""}, {"3.0.4", "", may("3.0.4", "CVE-2023-5366", "its package is not known")}, {"3.0.6", "", ""},
		{"3.1.4", "", ""}, {"3.2.1", "", may("3.2.1", "CVE-2023-5366", "its package is not known")}, {"3.2.2", "", ""}, {"3.3.0", "", ""}, {"3.10.1", "", ""}, {"4.0.0", "", ""},
		{"2.5.0", "", may("2.5.0", both, "its package is not known")},
	} {
		driver := strings.Replace(driverInSync, `"Type":"netdev"`, `"Type":"netdev","Version":"`+c.release+`","Package":"`+c.installed+`"`, 1)
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driver, "/inspect/nameserver": namesServed})
		got := run(t, url, "check --agent-port "+port)
		if named := strings.Contains(got.stdout, "openvswitch n1"); !strings.Contains(got.stdout, c.says) || named != (c.says != "") || (got.code != 0) != strings.HasPrefix(c.says, "FAIL") {
			t.Errorf("%s, package %q: want %q: %v", c.release, c.installed, c.says, got)
		}
	}
}

// A running program is not changed by an upgrade of its package: it has the fixes of the package only after a
// restart.
func TestAMendThatTheRunningSwitchMayLackIsNoMend(t *testing.T) {
	const remedy = "restart ovs-vswitchd: what runs there is older than the package"
	for _, c := range []struct {
		release, installed string
		says               []string
		fails              bool
	}{
		{"3.1.0", "3.1.0-2+deb12u1", []string{"FAIL  openvswitch n1: 3.1.0-2+deb12u1 was installed after ovs-vswitchd began, which may have CVE-2023-1668, CVE-2023-5366; " + remedy}, true},
		{"3.1.0", "3.1.0-2", []string{"FAIL  openvswitch n1: 3.1.0-2 has CVE-2023-5366; upgrade it", "FAIL  openvswitch n1: 3.1.0-2 was installed after ovs-vswitchd began, which may have CVE-2023-1668; " + remedy}, true},
		{"3.3.0", "3.3.0-2", []string{"ok    openvswitch n1: WARNING, 3.3.0-2 was installed after ovs-vswitchd began; " + remedy}, false},
	} {
		driver := strings.Replace(driverInSync, `"Type":"netdev"`, `"Type":"netdev","Version":"`+c.release+`","Package":"`+c.installed+`","Replaced":true`, 1)
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driver, "/inspect/nameserver": namesServed})
		got := run(t, url, "check --agent-port "+port)
		for _, line := range c.says {
			if !strings.Contains(got.stdout, line+"\n") && !strings.Contains(got.stdout, line+":") {
				t.Errorf("%s, package %q: want %q: %v", c.release, c.installed, line, got)
			}
		}
		if (got.code != 0) != c.fails || strings.Count(got.stdout, "openvswitch n1") != len(c.says) {
			t.Errorf("%s, package %q: %v", c.release, c.installed, got)
		}
	}
}

// A client of an OpenFlow or database port of a switch bypasses all guards: the node, the port and the remedy are
// named. A port on the machine only, or one that requires certificates, is no failure.
func TestSwitchesThatTakeOrdersFromTheNetworkAreNamed(t *testing.T) {
	const past = " changes it past everything that is guarded"
	for _, c := range []struct {
		listener, says string
		fails          bool
	}{
		{`{"Target":"ptcp:6640"}`, "ovsdb-server listens at ptcp:6640: whoever reaches that" + past + "; ovs-vsctl del-manager", true},
		{`{"Target":"ptcp:6640:0.0.0.0"}`, "ovsdb-server listens at ptcp:6640:0.0.0.0: whoever reaches that" + past + "; ovs-vsctl del-manager", true},
		{`{"Target":"ptcp:6640:[::]","Option":true}`, "ovsdb-server listens at ptcp:6640:[::]: whoever reaches that" + past +
			"; ovs-appctl -t ovsdb-server ovsdb-server/remove-remote ptcp:6640:[::], and take it out of the options that it is started with", true},
		{`{"Target":"ptcp:6653:192.0.2.1","Bridge":"contivVxlanBridge"}`, "bridge contivVxlanBridge listens at ptcp:6653:192.0.2.1: whoever reaches that" + past + "; ovs-vsctl del-controller contivVxlanBridge", true},
		{`{"Target":"ptcp:","Bridge":"br0"}`, "bridge br0 listens at ptcp:: whoever reaches that" + past + "; ovs-vsctl del-controller br0", true},
		{`{"Target":"ptcp:6640:127.0.0.1"}`, "WARNING, ovsdb-server listens at ptcp:6640:127.0.0.1: every user and every host-network pod of the machine" + past, false},
		{`{"Target":"pssl:6640:[::1]"}`, "WARNING, ovsdb-server listens at pssl:6640:[::1]: every user", false},
		{`{"Target":"pssl:6640"}`, "WARNING, ovsdb-server listens at pssl:6640: whoever has a certificate", false},
		{`{"Target":"tcp:192.0.2.9:6653","Bridge":"br0"}`, "WARNING, bridge br0 takes orders from tcp:192.0.2.9:6653: whoever answers there" + past, false},
		{`{"Target":"unknown:1"}`, "", false},
	} {
		driver := strings.Replace(driverInSync, `"Type":"netdev"`, `"Type":"netdev","Listeners":[`+c.listener+`]`, 1)
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driver, "/inspect/nameserver": namesServed})
		got := run(t, url, "check --agent-port "+port)
		word := "ok    "
		if c.fails {
			word = "FAIL  "
		}
		if (got.code != 0) != c.fails || c.says != "" && !strings.Contains(got.stdout, word+"openvswitch n1: "+c.says) || c.says == "" && strings.Contains(got.stdout, "openvswitch n1") {
			t.Errorf("%s: want %q: %v", c.listener, c.says, got)
		}
	}
	driver := strings.Replace(driverInSync, `"ErrStats":{`, `"ErrStats":{"Listeners":"remotes of ovsdb-server: no control socket"`, 1)
	url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driver, "/inspect/nameserver": namesServed})
	if got := run(t, url, "check --agent-port "+port); got.code != 0 || !strings.Contains(got.stdout, "WARNING, it is not known who else changes it: remotes of ovsdb-server") {
		t.Errorf("what is not known: %v", got)
	}
}

// A switch with several problems reports them as lines of one text: the check is one line nevertheless, in which they
// can be told apart.
func TestSeveralProblemsOfTheSwitchAreTold(t *testing.T) {
	const two = `"ErrStats":{"LastError":"uplink eth1: it is gone\nport p1: no room\n"}`
	for name, c := range map[string]struct{ driver, says string }{
		"in sync":     {strings.Replace(driverInSync, `"ErrStats":{}`, two, 1), "FAIL  bridge n1: uplink eth1: it is gone; port p1: no room; see the log"},
		"not in sync": {strings.NewReplacer(`"ErrStats":{}`, two, `"InSync":true`, `"InSync":false`).Replace(driverInSync), "FAIL  switch n1: flows are not in sync; uplink eth1: it is gone; port p1: no room; is Open"},
	} {
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": c.driver, "/inspect/nameserver": namesServed})
		if got := run(t, url, "check --agent-port "+port); !strings.Contains(got.stdout, c.says) {
			t.Errorf("%s: want %q: %v", name, c.says, got)
		}
	}
}
