package bgp_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// speaker is a BGP program of Debian, which knows its own configuration only.
type speaker struct {
	name   string
	config string // %[1]s is its address, %[2]s ours, %[3]d the hold time in seconds, %[4]s its IPv4 address
	start  func(config, dir string) [][]string
	show   func(dir string) []string // prints the routes it has
}

var bird = speaker{
	name: "bird",
	config: `
log stderr all;
debug protocols { states, events };
router id %[4]s;
protocol device {}
protocol direct { ipv4; ipv6; interface "up0"; }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:51::/48 blackhole; }
protocol bgp node {
  local %[1]s as 65100;
  neighbor %[2]s as 65001;
  password "secret";
  hold time %[3]d;
  error wait time 1, 2;
  graceful restart on;
  ipv4 { import all; export where source = RTS_STATIC; next hop address %[4]s; };
  ipv6 { import all; export where source = RTS_STATIC; next hop address fe80::c0de; };
}
`,
	start: func(config, dir string) [][]string {
		return [][]string{{"bird", "-f", "-R", "-c", config, "-s", filepath.Join(dir, "ctl")}}
	},
	show: func(dir string) []string {
		return []string{"birdc", "-s", filepath.Join(dir, "ctl"), "show", "route", "all"}
	},
}

var frr = speaker{
	name: "frr",
	config: `
frr defaults traditional
hostname outside
router bgp 65100
 bgp router-id %[4]s
 no bgp ebgp-requires-policy
 no bgp network import-check
 bgp graceful-restart
 neighbor %[2]s remote-as 65001
 neighbor %[2]s password secret
 neighbor %[2]s timers 1 %[3]d
 address-family ipv4 unicast
  network 198.51.100.0/24
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:51::/48
  neighbor %[2]s activate
 exit-address-family
`,
	start: func(config, dir string) [][]string {
		return [][]string{
			{"/usr/lib/frr/zebra", "-K", "60", "-f", "/dev/null", "-i", filepath.Join(dir, "zebra.pid"), "-z", filepath.Join(dir, "zserv"), "--vty_socket", dir},
			{"/usr/lib/frr/bgpd", "-f", config, "-i", filepath.Join(dir, "bgpd.pid"), "-z", filepath.Join(dir, "zserv"), "--vty_socket", dir},
		}
	},
	show: func(dir string) []string {
		return []string{"vtysh", "--vty_socket", dir, "-c", "show bgp ipv4 unicast", "-c", "show bgp ipv6 unicast"}
	},
}

// With TCP MD5, both IP families over one session, of either family, and restarts of either side.
func TestLongTheSpeakersOfDebianUnderstandUs(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	for _, theirs := range []speaker{bird, frr} {
		for _, version := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s, a session of IPv%d", theirs.name, version), func(t *testing.T) {
				run(t, "ip", "link", "set", "lo", "up")
				r := newLink(t, 0)
				if version == 4 {
					understands(t, theirs, r, r.own, r.near)
					return
				}
				own, near := r.haveIPv6()
				understands(t, theirs, r, own, near)
			})
		}
	}
}

// program is a running speaker of Debian.
type program struct {
	speaker
	t     *testing.T
	netns string
	dir   string   // of its files
	args  []string // of the BGP process
	cmd   *exec.Cmd
}

// begin starts a speaker of Debian at the other end of a link, with a session between addresses of the two ends.
func (theirs speaker) begin(t *testing.T, r *router, own, near netip.Addr, hold time.Duration) *program {
	t.Helper()
	fakenode.InNamespace(t, r.netns, "ip", "link", "set", "lo", "up")
	fakenode.InNamespace(t, r.netns, "ip", "address", "add", "fe80::c0de/64", "dev", "up0", "nodad")
	dir, err := os.MkdirTemp("", "bgp")
	if err == nil {
		err = os.Chmod(dir, 0o777) // they drop their privileges
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, fmt.Appendf(nil, theirs.config, own, near, int(hold.Seconds()), r.own), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(dir, "log")); t.Failed() && err == nil {
			t.Logf("%s:\n%s", theirs.name, log)
		}
	})
	p := &program{speaker: theirs, t: t, netns: r.netns, dir: dir}
	for _, p.args = range theirs.start(config, dir) {
		p.again()
	}
	return p
}

// again starts the BGP process, which has ended.
func (p *program) again() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("nsenter", append([]string{"--net=" + p.netns}, p.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = cmd
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// hears waits until the program shows such routes.
func (p *program) hears(what string, holds func(routes string) bool) {
	p.t.Helper()
	eventually(p.t, p.name+" "+what, func() bool {
		out, err := exec.Command("nsenter", append([]string{"--net=" + p.netns}, p.show(p.dir)...)...).CombinedOutput()
		return err == nil && holds(string(out))
	})
}

// Routes of Debian's speakers in these tests.
var world4, world6 = prefix("198.51.100.0/24"), prefix("2001:db8:51::/48")

// understands has a speaker of Debian, at its own address on a link, and ours have a session.
func understands(t *testing.T, theirs speaker, r *router, own, near netip.Addr) {
	they := theirs.begin(t, r, own, near, 9*time.Second)

	four, six := prefix("10.1.1.5/32"), prefix("2001:db8:1::5/128")
	settings := &bgp.Settings{AS: ourAS, Router: r.near, NextHop6: addr("fe80::1234"),
		Neighbours: []bgp.Neighbour{{Address: own, AS: theirAS, Password: "secret", HoldTime: 3 * time.Second}}}
	if near.Is6() {
		settings.Router6 = near
	}
	s, _, stop := start(t, bgp.Config{})
	s.Announce([]netip.Prefix{four, six}, nil)
	s.Configure(settings)
	learned := func() bool {
		return slices.Equal(s.NextHops(world4), []netip.Addr{r.own}) && len(s.NextHops(world6)) == 1
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v, routes %v", s.Status(own), s.Routes())
		}
	})
	eventually(t, "both versions are learned", learned)
	t.Log("IPv6 by", s.NextHops(world6))
	they.hears("has heard both", func(routes string) bool {
		return strings.Contains(routes, "10.1.1.5/32") && strings.Contains(routes, "2001:db8:1::5/128") &&
			strings.Contains(routes, r.near.String()) && strings.Contains(routes, "fe80::1234")
	})

	// We restart: they keep our routes.
	stop()
	saved := s.Routes()
	they.hears("keeps our routes while we are away", func(routes string) bool { return strings.Contains(routes, "10.1.1.5/32") })
	s, _, _ = start(t, bgp.Config{}, saved...)
	s.AllChanges()
	s.Announce([]netip.Prefix{four}, nil)
	s.Configure(settings)
	eventually(t, "the session is there again", func() bool { return s.Status(own).SessionState == bgp.Established })
	they.hears("drops what we do not say again", func(routes string) bool {
		return strings.Contains(routes, "10.1.1.5/32") && !strings.Contains(routes, "2001:db8:1::5/128")
	})
	eventually(t, "both are there", learned)
	for _, c := range s.AllChanges() {
		t.Errorf("changed by our restart: %v", c)
	}

	// They are killed and return: we keep their routes.
	they.signal(syscall.SIGKILL)
	_ = they.cmd.Wait()
	eventually(t, "they are gone", func() bool { return s.Status(own).SessionState != bgp.Established })
	if !learned() {
		t.Error("their routes went with them")
	}
	they.again()
	eventually(t, "they are back", func() bool { return s.Status(own).SessionState == bgp.Established })
	they.hears("has our route again", func(routes string) bool { return strings.Contains(routes, "10.1.1.5/32") })
	for _, c := range s.AllChanges() {
		t.Errorf("changed by their restart: %v", c)
	}

	// Another password: no session, and an error for operators.
	settings.Neighbours[0].Password = "wrong"
	wrong := *settings
	wrong.Neighbours = slices.Clone(settings.Neighbours)
	s.Configure(&wrong)
	eventually(t, "the wrong password does not work", func() bool {
		status := s.Status(own)
		return status.SessionState != bgp.Established && status.LastError != ""
	})
	t.Log(s.Status(own))
}

// Each side may be configured with another AS than the one it has. The error names the side, and ends when the
// number is corrected.
func TestLongTheSpeakersOfDebianAreOfAnotherAS(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	for _, theirs := range []speaker{bird, frr} {
		for _, c := range []struct {
			name         string
			ours, theirs uint32
			told         string
		}{
			{"the neighbour's AS is another one", ourAS, theirAS + 1, "bad peer as): it is of another AS"},
			{"ours is another one to the neighbour", ourAS + 1, theirAS, "it refuses this node, as one does that knows it by another AS"},
		} {
			t.Run(theirs.name+", "+c.name, func(t *testing.T) {
				run(t, "ip", "link", "set", "lo", "up")
				r := newLink(t, 0)
				theirs.begin(t, r, r.own, r.near, 9*time.Second)
				s, log, _ := start(t, bgp.Config{})
				speak := func(ours, theirs uint32) {
					s.Configure(&bgp.Settings{AS: ours, Router: r.near, Neighbours: []bgp.Neighbour{{Address: r.own, AS: theirs, Password: "secret"}}})
				}
				speak(c.ours, c.theirs)
				eventually(t, "the cause is inspected and logged", func() bool {
					return strings.Contains(s.Inspect().Peers[0].State.LastError, c.told) && logged(log, c.told)
				})
				speak(ourAS, theirAS)
				eventually(t, "the right one is heard", func() bool { return s.NextHops(world4) != nil && s.Inspect().Peers[0].State.LastError == "" })
				for _, words := range []string{"invalid-msg", "bad-peer-as"} {
					if logged(log, words) {
						t.Errorf("the log says %q", words)
					}
				}
			})
		}
	}
}

// A neighbour may fall silent with its link up: because it has stopped, or because packets get lost. No connection
// ends then, and that both sides use graceful restart does not mean that it restarts.
func TestLongTheSilenceOfASpeakerOfDebianIsFoundInTheHoldTime(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	const short = 3 * time.Second
	stop := func(they *program) (again func()) {
		they.signal(syscall.SIGSTOP)
		return func() { they.signal(syscall.SIGCONT) }
	}
	drop := func(they *program) (again func()) {
		nft := func(args ...string) { fakenode.InNamespace(t, they.netns, append([]string{"nft"}, args...)...) }
		nft("add table inet silence; add chain inet silence in { type filter hook input priority 0; policy drop; }; " +
			"add chain inet silence out { type filter hook output priority 0; policy drop; }")
		return func() { nft("delete table inet silence") }
	}
	for _, c := range []struct {
		name         string
		ours, theirs time.Duration // the lower one counts
		fallSilent   func(they *program) (again func())
	}{
		{"our hold time, its process is stopped", short, 90 * time.Second, stop},
		{"its hold time, its packets are dropped", 0, short, drop},
	} {
		for _, theirs := range []speaker{bird, frr} {
			t.Run(theirs.name+", "+c.name, func(t *testing.T) {
				run(t, "ip", "link", "set", "lo", "up")
				r := newLink(t, 0)
				they := theirs.begin(t, r, r.own, r.near, c.theirs)
				s, log, _ := start(t, bgp.Config{})
				s.Announce([]netip.Prefix{prefix("10.1.1.5/32")}, nil)
				s.Configure(&bgp.Settings{AS: ourAS, Router: r.near, NextHop6: addr("fe80::1234"),
					Neighbours: []bgp.Neighbour{{Address: r.own, AS: theirAS, Password: "secret", HoldTime: c.ours}}})
				learned := func() bool { return s.NextHops(world4) != nil && s.NextHops(world6) != nil }
				eventually(t, "its routes", learned)
				again := c.fallSilent(they)
				took := goes(t, s, short, world4, world6)
				t.Logf("its routes have gone after %s", took.Round(time.Millisecond))
				isSilent(t, s, log, r.own)
				again()
				testkit.Eventually(t, 4*patience, "it is heard again", learned) // after its own pauses, which grow where the machine is too busy for this hold time
			})
		}
	}
}
