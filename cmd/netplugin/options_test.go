package main

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/utils/daemonflags"
)

// minimal are the required flags.
var minimal = []string{"--mode=cni", "--netmode=vxlan", "--fwdmode=routing", "--ctrl-ip=192.0.2.1", "--vtep-ip=198.51.100.1"}

// parse runs the command line and returns the options it starts with.
func parse(args ...string) (started *options, err error) {
	cmd := command(func(_ context.Context, o *options) error {
		started = o
		return nil
	})
	cmd.Writer, cmd.ErrWriter = io.Discard, io.Discard
	err = cmd.Run(context.Background(), append([]string{"netplugin"}, args...))
	return started, err
}

func TestMinimalFlagsAndDefaults(t *testing.T) {
	o, err := parse(minimal...)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := cluster.Node{HostLabel: host, CtrlIP: netip.MustParseAddr("192.0.2.1"), VTEP: netip.MustParseAddr("198.51.100.1"), VXLANPort: 4789}
	if diff := cmp.Diff(want, o.node, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if o.runDir != "/var/run/openvswitch" || o.datapath != "auto" || o.httpAddress != ":9090" {
		t.Errorf("got %+v", o)
	}
}

func TestEnvironmentAndAliasesSetTheNode(t *testing.T) {
	for name, value := range map[string]string{
		"CONTIV_NETPLUGIN_MODE": "test", "CONTIV_NETPLUGIN_NET_MODE": "VXLAN", "CONTIV_NETPLUGIN_FORWARD_MODE": "routing",
		"CONTIV_NETPLUGIN_CONTROL_IP": "192.0.2.1", "CONTIV_NETPLUGIN_VTEP_IP": "192.0.2.1",
		"CONTIV_NETPLUGIN_VXLAN_PORT": "4790", "OVS_RUNDIR": "/run/ovs", "CONTIV_NETPLUGIN_HTTP_ADDRESS": "",
	} {
		t.Setenv(name, value)
	}
	o, err := parse("--host-label=n7")
	if err != nil {
		t.Fatal(err)
	}
	if o.Mode != "test" || o.node.HostLabel != "n7" || o.node.VXLANPort != 4790 || o.runDir != "/run/ovs" || o.httpAddress != ":9090" {
		t.Errorf("got %+v", o)
	}
}

// Netmasters learn a port other than the usual one.
func TestThePortOfTheRESTServerIsToldToOthers(t *testing.T) {
	for flag, want := range map[string]int{"--http-address=:9090": 0, "--http-address=127.0.0.1:9091": 9091} {
		if o, err := parse(append(slices.Clone(minimal), flag)...); err != nil || o.node.RESTPort != want {
			t.Errorf("%s: port %d, %v", flag, o.node.RESTPort, err)
		}
	}
}

func TestTheAddressesOfANodeMayBeOfIPv6(t *testing.T) {
	o, err := parse(append(slices.Clone(minimal[:3]), "--ctrl-ip=2001:db8::7", "--vtep-ip=2001:db8::7")...)
	if own := netip.MustParseAddr("2001:db8::7"); err != nil || o.node.VTEP != own || o.node.CtrlIP != own {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestNodePortsAreAtAddressesByWordOrNetwork(t *testing.T) {
	everywhere, network := hostaccess.Everywhere(), netip.MustParsePrefix("192.0.2.0/24")
	for _, test := range []struct {
		mode string
		flag []string
		want []netip.Prefix
	}{
		{"cni", nil, everywhere}, {"kubernetes", nil, nil}, {"Kubernetes", []string{"--node-port-addresses="}, nil},
		{"cni", []string{"--node-port-addresses=primary"}, nil}, {"kubernetes", []string{"--node-port-addresses=all"}, everywhere},
		{"kubernetes", []string{"--node-port-addresses= 192.0.2.9/24,"}, []netip.Prefix{network}},
	} {
		o, err := parse(append(append([]string{"--mode=" + test.mode}, minimal[1:]...), test.flag...)...)
		if err != nil || !slices.Equal(o.nodePortsAt, test.want) {
			t.Errorf("mode %s, %q: %v, %v", test.mode, test.flag, o.nodePortsAt, err)
		}
	}
}

func TestANetworkStandsForTheHostsAddressInIt(t *testing.T) {
	o, err := parse(append(slices.Clone(minimal[:3]), "--ctrl-ip=127.0.0.0/8", "--vtep-ip=127.0.0.0/8")...)
	if want := netip.MustParseAddr("127.0.0.1"); err != nil || o.node.VTEP != want || o.node.CtrlIP != want {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestViolationsEndWithTheirOwnStatusAndNameTheirFlag(t *testing.T) {
	for want, args := range map[string][]string{
		"--mode is required":               {"--netmode=vxlan", "--fwdmode=routing"},
		`--mode "docker": not supported`:   {"--mode=docker"},
		`--netmode vlan: needs an uplink`:  {"--netmode=vlan"},
		`eth1 is named twice`:              {"--vlan-if=eth1,eth2, eth1"},
		`--vlan-bond-mode "802.3ad": want`: {"--vlan-if=eth1,eth2", "--vlan-bond-mode=802.3ad"},
		`"10.78.0.0/16" is not a tenant`:   {"--probed-networks=blue=10.77.0.0/16,10.78.0.0/16"},
		`is where all is`:                  {"--probed-networks=blue=0.0.0.0/0"},
		`"primary" is not a network`:       {"--node-port-addresses=192.0.2.0/24,primary"},
		`"all" is not a network`:           {"--node-port-addresses=all,192.0.2.0/24"},
		`not the name of a link`:           {"--vlan-uplinks=eth1/2"},
		`--fwdmode "l3": want bridge`:      {"--fwdmode=l3"},
		`--vtep-ip: "10.1.1"`:              {"--vtep-ip=10.1.1"},
		`--ctrl-ip: "::"`:                  {"--ctrl-ip=::"},
		`--vtep-ip: "fe80::1"`:             {"--vtep-ip=fe80::1"},
		`--vtep-ip: "ff02::1"`:             {"--vtep-ip=ff02::1"},
		`--host "a/b"`:                     {"--host=a/b"},
		`--vxlan-port 65536`:               {"--vxlan-port=65536"},
		`invalid value "many"`:             {"--vxlan-port=many"},
		`--datapath "dpdk"`:                {"--datapath=dpdk"},
		`--slow-from-masks -1`:             {"--slow-from-masks=-1"},
		`--tenant-connections -2`:          {"--tenant-connections=-2"},
		`--http-address: "9090"`:           {"--http-address=9090"},
		`unexpected argument "start"`:      {"start"},
		`"https://m1:9999" has a name`:     {"--netmasters=https://192.0.2.1:9999,https://m1:9999", "--join-token-file=/run/token"},
		`"http://192.0.2.1:9999" is not`:   {"--netmasters=http://192.0.2.1:9999", "--join-token-file=/run/token"},
		`give --join-token-file`:           {"--netmasters=https://192.0.2.1:9999,https://[2001:db8::1]:9999", "--pki-dir="},
		`needs --join-token-file`:          {"--join-authorities=/run/authorities.crt"},
		`not defined: -bogus`:              {"--bogus"},
	} {
		t.Run(want, func(t *testing.T) {
			all := args
			for _, flag := range minimal {
				name, _, _ := strings.Cut(flag, "=")
				given := strings.Contains(strings.Join(args, " "), name+"=") || want == "--mode is required"
				if !given {
					all = append([]string{flag}, all...)
				}
			}
			started, err := parse(all...)
			var wrong *configError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || started != nil {
				t.Errorf("got %v", err)
			}
			if code := exitCode(err); code != daemonflags.ExitInvalid {
				t.Errorf("exit status %d", code)
			}
		})
	}
}

// A host may get its address later: it is asked for again.
func TestAnAddressThatIsNotThereYetIsNoViolation(t *testing.T) {
	_, err := parse(append(minimal[:len(minimal)-1:len(minimal)-1], "--vtep-ip=233.252.0.0/24")...)
	if code := exitCode(err); code != 1 || !strings.Contains(err.Error(), "no address in 233.252.0.0/24") {
		t.Errorf("exit status %d, %v", code, err)
	}
}

func TestVersionNeedsNothingElse(t *testing.T) {
	var out strings.Builder
	cmd := command(func(context.Context, *options) error { return errors.New("started") })
	cmd.Writer = &out
	if err := cmd.Run(context.Background(), []string{"netplugin", "-v"}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Version:", "GitCommit:", "BuildTime:"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%s is missing in %q", line, out.String())
		}
	}
}

func TestWhoIsAskedForNames(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		on     bool
		others bool // an upstream is asked for unknown names
	}{
		{nil, true, true}, {[]string{"--dns=false"}, false, true}, {[]string{"--dns-upstream=none"}, true, false},
		{[]string{"--dns-upstream=192.0.2.1, 2001:db8::1,192.0.2.1:5353"}, true, true},
	} {
		o, err := parse(append(minimal, c.flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		if o.names.on != c.on || (o.names.forwarder != nil) != c.others {
			t.Errorf("%q: %+v", c.flags, o.names)
		}
	}
	if _, err := parse(append(minimal, "--dns-upstream=192.0.2.1,example.org")...); err == nil || !strings.Contains(err.Error(), `--dns-upstream: name server "example.org"`) {
		t.Errorf("%v", err)
	}
}

func TestEndpointsAreKeptFromWhatTheCommandLineNames(t *testing.T) {
	o := &options{httpAddress: "192.0.2.9:9091"}
	o.node.VXLANPort, o.node.CtrlIP, o.node.VTEP = 4790, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	o.Store.Endpoints = []string{"http://127.0.0.1:2381", "https://192.0.2.7:2379/", "http://store:4001", "http://[2001:db8::7]:2379"}
	got := closedFor(o)
	want := hostaccess.Closed{VXLANPort: 4790, Ports: []uint16{9999, 2379, 2380, 179, 9091, 2381, 2379, 4001, 2379}, Own: []uint16{6443, 10250, 10256, 10249}}
	for _, address := range []string{"192.0.2.1", "2001:db8::1", "192.0.2.9", "192.0.2.7", "2001:db8::7"} {
		want.Nodes = append(want.Nodes, netip.MustParseAddr(address))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A subcommand with a mistyped flag must not do its work: cleanup takes a node apart.
func TestSubcommandsTakeFlagsOnly(t *testing.T) {
	run := func(args ...string) (done *cli.Command, out string, err error) {
		var said strings.Builder
		root := &cli.Command{
			Name: "netplugin", Writer: &said, ErrWriter: io.Discard, Flags: nodeFlags(&options{}),
			ExitErrHandler: func(context.Context, *cli.Command, error) {},
			Commands: []*cli.Command{{Name: "work", Flags: []cli.Flag{&cli.BoolFlag{Name: "dry-run"}}, Action: withoutArguments(func(_ context.Context, cmd *cli.Command) error {
				done = cmd
				return nil
			})}},
		}
		err = root.Run(context.Background(), append([]string{"netplugin"}, args...))
		return done, said.String(), err
	}
	for _, args := range [][]string{{"work", "dry-run"}, {"work", "--dry-run", "false"}, {"work", "--", "--dry-run"}} {
		if done, _, err := run(args...); done != nil || exitCode(err) != daemonflags.ExitInvalid || !strings.Contains(err.Error(), "unexpected argument") {
			t.Errorf("%q: %v, works: %v", args, err, done != nil)
		}
	}
	if done, out, err := run("work", "--version"); done != nil || err != nil || !strings.Contains(out, "GitCommit:") {
		t.Errorf("--version: %q, %v, works: %v", out, err, done != nil)
	}
	for _, args := range [][]string{{"--ovs-rundir=/run/ovs", "work"}, {"work", "--ovs-rundir=/run/ovs"}} {
		if done, _, err := run(args...); err != nil || done == nil || done.String(runDirFlag) != "/run/ovs" {
			t.Errorf("%q: %v, works: %v", args, err, done != nil)
		}
	}
}
