package netconf

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

func TestArgumentsAreSplitAtSemicolonAndFirstEqualsSign(t *testing.T) {
	for text, want := range map[string]Args{
		"":                  {},
		";;;":               {},
		"A=1":               {"A": "1"},
		"A=1;B=2":           {"A": "1", "B": "2"},
		"A=1;B=2;":          {"A": "1", "B": "2"},
		"A=x=y;B=":          {"A": "x=y", "B": ""},
		`A="quoted";=v;B`:   {"A": `"quoted"`, "B": ""},
		"A=1;A=2":           {"A": "2"},
		"IgnoreUnknown=1":   {"IgnoreUnknown": "1"},
		" A=1 ; B =2":       {"A": "1 ", "B": "2"},
		"K8S_POD_NAME=a\nb": {"K8S_POD_NAME": "a\nb"},
	} {
		if diff := cmp.Diff(want, ParseArgs(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestLabelsAreWrittenInUpperCaseInArguments(t *testing.T) {
	args := ParseArgs("IO_CONTIV_TENANT=blue;IO_CONTIV_NET_GROUP=front")
	for label, want := range map[string]string{
		"io.contiv.tenant": "blue", "io.contiv.net-group": "front", "io.contiv.network": "",
	} {
		if got := args.Label(label); got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
}

func TestAConfigurationThatCannotBeHonouredIsRefused(t *testing.T) {
	for text, code := range map[string]uint{
		``:                                     6,
		`null`:                                 6,
		`[]`:                                   6,
		`{`:                                    6,
		`{"x":}`:                               6,
		`{"cniVersion": 1}`:                    6,
		`{"cniVersion": "0.6.0", "name": "n"}`: 1,
		`{"cniVersion": "1.0.0"}`:              7,
		`{"cniVersion": "1.0.0", "name": "n", "mtu": 10}`:                7,
		`{"cniVersion": "1.0.0", "name": "n", "timeout": -1}`:            7,
		`{"cniVersion": "1.0.0", "name": "n", "ipam": {"type": "dhcp"}}`: 7,
	} {
		_, err := Parse([]byte(text))
		var e *types.Error
		if !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v, want CNI error %d", text, err, code)
		}
	}
}

func TestAConfigurationIsReadInEveryVersion(t *testing.T) {
	for _, version := range Versions() {
		c, err := Parse([]byte(`{"cniVersion": "` + version + `", "name": "n", "type": "contivk8s", "mtu": 1400, "unknown": {},
			"args": {"cni": {"labels": [{"key": "io.contiv.tenant", "value": "blue"}]}},
			"dns": {"nameservers": ["10.0.0.1"], "search": ["a"]},
			"runtimeConfig": {"ips": ["10.0.0.5/24", "fd00::5"], "dns": {"servers": ["10.0.0.2"]}, "portMappings": [{}]}}`))
		if err != nil {
			t.Errorf("version %s: %v", version, err)
			continue
		}
		if c.MTU != 1400 || c.Label("io.contiv.tenant") != "blue" {
			t.Errorf("version %s: %+v", version, c)
		}
		want := types.DNS{Nameservers: []string{"10.0.0.2"}, Search: []string{"a"}}
		if diff := cmp.Diff(want, c.Resolver()); diff != "" {
			t.Errorf("version %s: resolver: %s", version, diff)
		}
	}
}

func TestAddressesAreAskedForInTwoWays(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")
	for _, c := range []struct {
		runtime, args string
		want          Wanted
		code          uint
	}{
		{"", "", Wanted{}, 0},
		{`"ips": ["10.0.0.5/24", "fd00::5"]`, "", Wanted{four, six}, 0},
		{"", "IP=10.0.0.5", Wanted{IPv4: four}, 0},
		{"", "IgnoreUnknown=1;IP=10.0.0.5/24,fd00::5", Wanted{four, six}, 0},
		{`"ips": ["fd00::5"]`, "IP=10.0.0.5", Wanted{four, six}, 0},
		{`"ips": ["10.0.0.5"]`, "IP=10.0.0.5", Wanted{IPv4: four}, 0},
		{`"ips": ["10.0.0.6"]`, "IP=10.0.0.5", Wanted{}, 7},
		{`"ips": ["::1", "::2"]`, "", Wanted{}, 7},
		{`"ips": ["x"]`, "", Wanted{}, 7},
		{"", "IP=10.0.0.256", Wanted{}, 7},
		{"", "IP=fe80::1%eth0", Wanted{}, 7},
		{`"mac": "02:00:00:00:00:01"`, "", Wanted{}, 2},
		{"", "MAC=02:00:00:00:00:01", Wanted{}, 2},
	} {
		conf, err := Parse([]byte(`{"cniVersion": "1.0.0", "name": "n", "runtimeConfig": {` + c.runtime + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadWanted(conf, ParseArgs(c.args))
		var e *types.Error
		if c.code != 0 && (!errors.As(err, &e) || e.Code != c.code) {
			t.Errorf("%s %s: %v, want CNI error %d", c.runtime, c.args, err, c.code)
		}
		if c.code == 0 && (err != nil || got != c.want) {
			t.Errorf("%s %s: %v %v, want %v", c.runtime, c.args, got, err, c.want)
		}
	}
}

func TestValidAttachmentsAreReadUnderBothNames(t *testing.T) {
	c, err := Parse([]byte(`{"cniVersion": "1.1.0", "name": "n",
		"cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}],
		"cni.dev/attachments": [{"containerID": "b", "ifname": "eth1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[cniwire.Attachment]bool{{ContainerID: "a", IfName: "eth0"}: true, {ContainerID: "b", IfName: "eth1"}: true}
	if diff := cmp.Diff(want, c.Valid()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"cniVersion": "1.1.0", "name": "n", "runtimeConfig": {"ips": ["1.2.3.4/8"]}, "args": {"cni": {"labels": [{}]}}}`), "A=B;C")
	f.Add([]byte(`{"cniVersion": "1.1.0", "name": "n", "cni.dev/valid-attachments": null}`), "=;=")
	f.Fuzz(func(t *testing.T, data []byte, args string) {
		for key := range ParseArgs(args) {
			if key == "" {
				t.Error("an empty key")
			}
		}
		c, err := Parse(data)
		if err != nil {
			var e *types.Error
			if !errors.As(err, &e) {
				t.Errorf("%v is no CNI error", err)
			}
			return
		}
		var e *types.Error
		if _, err := ReadWanted(c, ParseArgs(args)); err != nil && !errors.As(err, &e) {
			t.Errorf("%v is no CNI error", err)
		}
		c.Resolver()
		c.Valid()
	})
}
