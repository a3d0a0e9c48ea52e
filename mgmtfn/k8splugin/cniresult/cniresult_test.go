package cniresult

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

func ours(t testing.TB) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(Build(Facts{
		HostLink: "vvport1", HostMAC: "0a:00:00:00:00:01", Name: "eth0", MAC: "02:02:0a:01:00:02",
		Netns: "/run/netns/pod", MTU: 1450,
		Addresses:       []netip.Prefix{netip.MustParsePrefix("10.1.0.2/16"), netip.MustParsePrefix("fd01::2/64")},
		NetworkGateways: []netip.Addr{netip.MustParseAddr("10.1.0.1")},
		DefaultRoutes:   []netip.Addr{netip.MustParseAddr("10.1.0.1")},
		DNS:             types.DNS{Nameservers: []string{"10.1.0.10"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The parts that differ between versions.
const (
	plain = `"interfaces": [{"name": "vvport1", "mac": "0a:00:00:00:00:01"},
		{"name": "eth0", "mac": "02:02:0a:01:00:02", "sandbox": "/run/netns/pod"}]`
	withMTU = `"interfaces": [{"name": "vvport1", "mac": "0a:00:00:00:00:01"},
		{"name": "eth0", "mac": "02:02:0a:01:00:02", "sandbox": "/run/netns/pod", "mtu": 1450}]`
	ips = `"ips": [{"interface": 1, "address": "10.1.0.2/16", "gateway": "10.1.0.1"},
		{"interface": 1, "address": "fd01::2/64"}]`
	ipsWithVersion = `"ips": [{"version": "4", "interface": 1, "address": "10.1.0.2/16", "gateway": "10.1.0.1"},
		{"version": "6", "interface": 1, "address": "fd01::2/64"}]`
	rest = `"routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}], "dns": {"nameservers": ["10.1.0.10"]}`
)

func TestTheResultIsWrittenInEveryVersion(t *testing.T) {
	for version, want := range map[string]string{
		"0.3.0": `{"cniVersion": "0.3.0", ` + plain + "," + ipsWithVersion + "," + rest + "}",
		"0.3.1": `{"cniVersion": "0.3.1", ` + plain + "," + ipsWithVersion + "," + rest + "}",
		"0.4.0": `{"cniVersion": "0.4.0", ` + plain + "," + ipsWithVersion + "," + rest + "}",
		"1.0.0": `{"cniVersion": "1.0.0", ` + plain + "," + ips + "," + rest + "}",
		"1.1.0": `{"cniVersion": "1.1.0", ` + withMTU + "," + ips + "," + rest + "}",
	} {
		got, err := Answer(ours(t), nil, version)
		if err != nil {
			t.Errorf("version %s: %v", version, err)
			continue
		}
		equalJSON(t, version, want, got)
	}
}

func TestAPreviousResultStaysAndComesFirst(t *testing.T) {
	for version, previous := range map[string]string{
		"0.3.1": `{"interfaces": [{"name": "br0"}], "ips": [{"version": "4", "interface": 0, "address": "192.0.2.1/24"}], "dns": {"nameservers": ["9.9.9.9"]}}`,
		"1.1.0": `{"cniVersion": "1.1.0", "interfaces": [{"name": "br0", "mtu": 1500}], "ips": [{"interface": 0, "address": "192.0.2.1/24"}], "dns": {"nameservers": ["9.9.9.9"]}}`,
	} {
		data, err := Answer(ours(t), json.RawMessage(previous), version)
		if err != nil {
			t.Errorf("version %s: %v", version, err)
			continue
		}
		var got struct {
			Interfaces []struct{ Name string }
			IPs        []struct {
				Interface int
				Address   string
			}
			DNS types.DNS
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Interfaces) != 3 || got.Interfaces[0].Name != "br0" || got.Interfaces[2].Name != "eth0" {
			t.Errorf("version %s: interfaces %v", version, got.Interfaces)
		}
		if len(got.IPs) != 3 || got.IPs[0].Address != "192.0.2.1/24" || got.IPs[1].Interface != 2 || got.IPs[2].Interface != 2 {
			t.Errorf("version %s: addresses %v", version, got.IPs)
		}
		if diff := cmp.Diff([]string{"9.9.9.9"}, got.DNS.Nameservers); diff != "" {
			t.Errorf("version %s: resolver %s", version, diff)
		}
	}
}

func TestAPreviousResultThatIsNoneIsRefused(t *testing.T) {
	for _, previous := range []string{`[]`, `7`, `{"cniVersion": "7.0.0"}`, `{"interfaces": [null]}`, `{"ips": [null]}`, `{"ips": [{"address": "x"}]}`} {
		_, err := Answer(ours(t), json.RawMessage(previous), "1.0.0")
		var e *types.Error
		if !errors.As(err, &e) || e.Code != types.ErrDecodingFailure {
			t.Errorf("previous result %s: %v, want CNI error %d", previous, err, types.ErrDecodingFailure)
		}
	}
	if _, err := Answer(ours(t), json.RawMessage("null"), "1.0.0"); err != nil {
		t.Errorf("no previous result: %v", err)
	}
}

func FuzzPreviousResult(f *testing.F) {
	for _, version := range []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		f.Add([]byte(`{"cniVersion": "`+version+`", `+ipsWithVersion+","+withMTU+","+rest+"}"), version)
	}
	f.Add([]byte(`{"interfaces": [null], "routes": [null]}`), "0.4.0")
	own := ours(f)
	f.Fuzz(func(t *testing.T, previous []byte, version string) {
		data, err := Answer(own, previous, version)
		if err == nil && !json.Valid(data) {
			t.Errorf("answered %q", data)
		}
	})
}

func equalJSON(t *testing.T, what, want string, got []byte) {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(want), &x); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if err := json.Unmarshal(got, &y); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if diff := cmp.Diff(x, y); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}
