package contivmodel

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

// valid makes, for every kind, an object that breaks no rule.
func valid(typ string) Object {
	var o Object
	switch typ {
	case "tenant":
		o = &Tenant{TenantName: "blue"}
	case "network":
		o = &Network{TenantName: "blue", NetworkName: "web", Encap: "vxlan", Subnet: "10.7.0.0/24"}
	case "endpointGroup":
		o = &EndpointGroup{TenantName: "blue", GroupName: "front", NetworkName: "web"}
	case "policy":
		o = &Policy{TenantName: "blue", PolicyName: "p1"}
	case "rule":
		o = &Rule{TenantName: "blue", PolicyName: "p1", RuleID: "1", Direction: "in", Action: "allow"}
	case "global":
		o = &Global{Name: "global", Vlans: "1-4094", Vxlans: "1-10000", PvtSubnet: "172.19.0.0/16"}
	case "netprofile":
		o = &Netprofile{TenantName: "blue", ProfileName: "slow"}
	case "Bgp":
		o = &Bgp{Hostname: "node1", Routerip: "10.1.1.1/24"}
	case "serviceLB":
		o = &ServiceLB{TenantName: "blue", ServiceName: "shop", NetworkName: "web"}
	case "extContractsGroup":
		o = &ExtContractsGroup{TenantName: "blue", ContractsGroupName: "c1", ContractsType: "provided"}
	case "appProfile":
		o = &AppProfile{TenantName: "blue", AppProfileName: "a1"}
	case "aciGw":
		o = &AciGw{Name: "aciGw", EnforcePolicies: "yes", IncludeCommonTenant: "no", PhysicalDomain: "dom"}
	case "volume":
		o = &Volume{TenantName: "blue", VolumeName: "v"}
	case "volumeProfile":
		o = &VolumeProfile{TenantName: "blue", VolumeProfileName: "v"}
	}
	o.SetKey(o.ModelKey())
	return o
}

func TestValidObjectsPass(t *testing.T) {
	for _, k := range Kinds() {
		if err := Validate(valid(k.Type)); err != nil {
			t.Errorf("%s: %v", k.Type, err)
		}
	}
}

func TestKeyMustBeTheOneTheFieldsMake(t *testing.T) {
	for _, k := range Kinds() {
		for _, key := range []string{"", "other", "blue", "blue:"} {
			o := valid(k.Type)
			if o.ModelKey() == key {
				continue
			}
			o.SetKey(key)
			wantRefusal(t, Validate(o), "key", "Invalid Key")
		}
	}
}

func wantRefusal(t *testing.T, err error, field, text string) {
	t.Helper()
	if !fault.Is(err, fault.Invalid) || err.Error() != text || fault.As(err).Field != field {
		t.Errorf("got %v, want %q about field %s", err, text, field)
	}
}

// values lists values that each rule accepts and refuses, by type and field.
var values = []struct {
	field   string // type.field
	good    []any
	bad     []any // invalid format, or out of bound for numbers
	tooLong int   // shortest length refused; 0: no limit
}{
	{"tenant.tenantName", list("a", "0", "blue", "a.b.c", "a-b", "A1"), list("-a", "a-", "a_b", "a b", "a:b", "a/b", ".", "a.", ".a", "a..b", "ä", "a\n", "a\x00"), 65},
	{"tenant.namespaces", list("", "shop", "shop,shop-test"), list("shop,", ",shop", "shop test", "-shop", "shop, test", "a.b"), 4097},
	{"tenant.vlans", list("", "100", "100-200", "100,200-299"), list("100-", "-5", "a", "100,", "1-2-3", " 1", "123456789"), 1025},
	{"tenant.defaultNetwork", list("", "web", "a.b", "web."), list("-a", "a b", "a/b", ".a", "a_b"), 65},
	{"network.networkName", list("web"), list("", "a_b"), 65},
	{"network.tenantName", list("blue"), list("", "a:b"), 65},
	{"network.nwType", list("", "infra", "data"), list("Data", "x", " data"), 0},
	{"network.encap", list("vlan", "vxlan"), list("", "VLAN", "vlan ", "gre"), 0},
	{"network.pktTag", list(0, 1, 16777216), list(-1, 16777217), 0},
	{"network.subnet", list("10.0.0.0/8", "10.7.0.10-10.7.0.20/24", "1.1.1.1/1", "10.0.0.0/31"), list("", "10.0.0.0", "10.0.0.0/0", "10.0.0.0/32", "256.0.0.0/8", "10.0.0/8", "10.0.0.1-9/24", "::/64", "10.0.0.0/024", "10.0.0.0/24\n"), 0},
	{"network.gateway", list("", "10.7.0.1", "0.0.0.0", "255.255.255.255"), list("10.7.0.256", "10.7.0", "x", "::1", "010.0.0.1"), 0},
	{"network.ipv6Subnet", list("", "2001:db8::/64", "::/1", "1:2:3:4:5:6:7:8/127", "fd00::/108", "fd00::/109", "fd00::/118", "fd00::/119", "fd00::/120"), list("/64", "1:/64", "2001:db8::", "2001:db8::/0", "2001:db8::/128", "10.0.0.0/8", ":::/64", "1::2::3/64", "g::/64", "1:2:3:4:5:6:7/64"), 0},
	{"network.ipv6Gateway", list("", "2001:db8::1", "::", "::1"), list("1:", ":", "10.0.0.1", "1::2::3", "2001:db8::1/64", "fe80::1%eth0"), 0},
	{"serviceLB.sessionAffinity", list(0, 1, 65535), list(-1, 65536), 0},
	{"serviceLB.ipv6Address", list("", "auto", "2001:db8::1", "::1"), list("1:", "Auto", "10.0.0.1", "2001:db8::1/64", "fe80::1%eth0"), 0},
	{"network.cfgdTag", list("", "web.blue", "t1"), list("web.", "a_b", "-"), 129},
	{"endpointGroup.groupName", list("front"), list("", "a b"), 65},
	{"endpointGroup.networkName", list("web"), list("", "a b"), 65},
	{"endpointGroup.ipPool", list("", "10.7.0.10-10.7.0.20", "10.7.0.10"), list("10.7.0.10-", "10.7.0.10-20", "x", "10.7.0.0/24"), 0},
	{"endpointGroup.netProfile", list("", "anything goes"), nil, 65},
	{"endpointGroup.cfgdTag", list("", "front.blue"), list("a b"), 129},
	{"policy.policyName", list("p"), list("", "p q"), 65},
	{"rule.ruleId", list("1", "r-1"), list("", "1:2"), 65},
	{"rule.direction", list("in", "out"), list("", "both", "IN"), 0},
	{"rule.action", list("allow", "deny"), list("", "accept", "Allow"), 0},
	{"rule.priority", list(0, 1, 100), list(-1, 101), 0},
	{"rule.port", list(0, 80, 65535), list(-1, 65536), 0},
	{"rule.protocol", list("", "tcp", "udp", "icmp", "0", "6", "255"), list("igmp", "TCP", "256", "999", "1000", "-1", "6 "), 0},
	{"rule.fromEndpointGroup", list("", "front"), list("a b"), 65},
	{"rule.toEndpointGroup", list("", "front"), list("a b"), 65},
	{"rule.fromNetwork", list("", "web"), list("a b"), 65},
	{"rule.toNetwork", list("", "web"), list("a b"), 65},
	{"rule.fromIpAddress", list("", "10.1.1.1", "10.1.1.0/24", "10.1.1.1/32", "2001:db8::1", "2001:db8::/64", "2001:db8::1/128", "0.0.0.0/0", "::/0"),
		list("10.1.1.1-9", "10.1.1.1-9/24", "10.1.1.0/33", "x", "10.1.1.256", "10.1.1.0/0", "2001:db8::/129", "2001:db8::/0", "2001:db8::1::2", "::ffff:10.1.1.1", "fe80::1%eth0"), 0},
	{"rule.toIpAddress", list("", "10.1.1.1", "10.1.1.0/24", "2001:db8::/64"), list("10.1.1.1-9", "x", ":"), 0},
	{"global.networkInfraType", list("", "aci", "aci-opflex", "default"), list("ACI", "other"), 65},
	{"global.fwdMode", list("", "bridge", "routing"), list("l2"), 65},
	{"global.arpMode", list("", "proxy", "flood"), list("none"), 65},
	{"global.vlans", list("1-4094", "100-200", "5-3"), list("", "1", "1-", "-4094", "1-40940", "1-10,20-30"), 0},
	{"global.vxlans", list("1-10000", "1-99999999"), list("", "1", "1-100000000"), 0},
	{"global.pvtSubnet", list("172.19.0.0/16"), list("", "172.19.0.0", "172.19.0.0/24", "172.19.0.0/15", "300.0.0.0/16"), 0},
	{"netprofile.profileName", list("slow", "a_b", "_", "a_.b-c", "x-y"), list("", "a/b", "a:b", "-a", "a_b-", "a b", "a..b"), 65},
	{"netprofile.tenantName", list("blue", "a b"), list(""), 0}, // it must exist, which says more
	{"netprofile.bandwidth", list("", "10 Mbps", "10Mbps", "1 k", "5g", "20 kb", "3Gb", "7 mbps"), list("10", "0 Mbps", "10 1", "10 {", "10  Mbps", "fast", "-1 k", "10 Tbps"), 65},
	{"netprofile.DSCP", list(0, 63), list(-1, 64), 0},
	{"netprofile.burst", list(0, 2, 10486), list(-1, 10487), 0},
	{"Bgp.hostname", list("node-1.example"), list("a b"), 257},
	{"Bgp.routerip", list("10.1.1.1/24"), list("", "10.1.1.1", "10.1.1.1/32"), 0},
	{"Bgp.as", list("", "65001", "1.10"), nil, 65},
	{"Bgp.neighbor-as", list("", "65001"), nil, 65},
	{"Bgp.neighbor", list("", "10.1.1.2"), list("10.1.1", "x"), 16},
	{"Bgp.ipv6Routerip", list("", "2001:db8::1/64"), list("2001:db8::1", "10.1.1.1/24"), 0},
	{"Bgp.password", list("", "secret"), nil, 81},
	{"Bgp.holdTime", list(0, 3, 65535), list(-1, 65536), 0},
	{"serviceLB.serviceName", list("shop"), list("", "a b"), 257},
	{"serviceLB.networkName", list("web"), list("", "a b"), 65},
	{"serviceLB.ipAddress", list("", "10.7.0.9"), list("10.7"), 16},
	{"extContractsGroup.contractsGroupName", list("c"), list("", "a b"), 65},
	{"appProfile.appProfileName", list("a"), list("", "a b"), 65},
	{"aciGw.enforcePolicies", list("yes", "no"), list("", "maybe", "yesno"), 65},
	{"aciGw.includeCommonTenant", list("yes", "no"), list("", "YES"), 65},
	{"aciGw.physicalDomain", list("dom.1"), list("", "a b"), 129},
	{"aciGw.pathBindings", list("", "topology/pod-1/paths-101/pathep-[eth1/14]", "topology/pod-1/paths-101/pathep-[eth1/14],topology/pod-1/paths-102/pathep-[eth1/1]"), list("x", "topology/pod-1/node-101", "topology/pod-1/paths-101/pathep-[eth1/14],"), 2049},
	{"aciGw.nodeBindings", list("", "topology/pod-1/node-101"), list("x", "topology/pod-12345/node-1"), 2049},
}

func list(items ...any) []any { return items }

func TestEveryRuleTakesAndRefuses(t *testing.T) {
	for _, v := range values {
		typ, name, _ := strings.Cut(v.field, ".")
		try := func(value any) error {
			k, _ := KindByType(typ)
			o := valid(typ)
			f, ok := k.Field(name)
			if !ok {
				t.Fatalf("no field %s", v.field)
			}
			if err := f.Set(o, value); err != nil {
				t.Fatal(err)
			}
			o.SetKey(o.ModelKey())
			return Validate(o)
		}
		for _, value := range v.good {
			if err := try(value); err != nil {
				t.Errorf("%s %q: %v", v.field, value, err)
			}
		}
		for _, value := range v.bad {
			text := " string invalid format"
			if _, isNumber := value.(int); isNumber {
				text = " Value Out of bound"
			}
			err := try(value)
			if err == nil {
				t.Errorf("%s takes %q", v.field, value)
				continue
			}
			wantRefusal(t, err, name, name+text)
		}
		if v.tooLong > 0 {
			wantRefusal(t, try(strings.Repeat("a", v.tooLong)), name, name+" string too long")
			if err := try(strings.Repeat("a", v.tooLong-1)); err != nil && strings.HasSuffix(err.Error(), "too long") {
				t.Errorf("%s: %d bytes are too long", v.field, v.tooLong-1)
			}
		}
	}
}

func TestLengthsAreCountedInBytes(t *testing.T) {
	g := &EndpointGroup{TenantName: "blue", GroupName: "front", NetworkName: "web", NetProfile: strings.Repeat("ä", 33)}
	g.SetKey(g.ModelKey())
	wantRefusal(t, Validate(g), "netProfile", "netProfile string too long")
}

func TestEveryTextRuleIsTried(t *testing.T) {
	tried := map[string]bool{}
	for _, v := range values {
		typ, name, _ := strings.Cut(v.field, ".")
		k, _ := KindByType(typ)
		f, _ := k.Field(name)
		tried[f.Rule] = true
	}
	for name := range patterns {
		if !tried[name] {
			t.Errorf("no value tries pattern %s", name)
		}
	}
}

func TestFirstFailureWins(t *testing.T) {
	n := &Network{TenantName: "b d", NetworkName: "w b", Encap: "x", Subnet: "y", PktTag: -1}
	wantRefusal(t, Validate(n), "key", "Invalid Key")
	n.SetKey(n.ModelKey())
	for _, step := range []struct {
		field, text string
		fix         func()
	}{
		{"encap", "encap string invalid format", func() { n.Encap = "vlan" }},
		{"networkName", "networkName string invalid format", func() { n.NetworkName = "web"; n.SetKey(n.ModelKey()) }},
		{"pktTag", "pktTag Value Out of bound", func() { n.PktTag = 0 }},
		{"subnet", "subnet string invalid format", func() { n.Subnet = "10.0.0.0/8" }},
		{"tenantName", "tenantName string invalid format", func() { n.TenantName = strings.Repeat("a", 70) + "_"; n.SetKey(n.ModelKey()) }},
		{"tenantName", "tenantName string too long", func() { n.TenantName = "blue"; n.SetKey(n.ModelKey()) }},
	} {
		wantRefusal(t, Validate(n), step.field, step.text)
		step.fix()
	}
	if err := Validate(n); err != nil {
		t.Error(err)
	}
}

func TestValidationChangesNothing(t *testing.T) {
	for _, k := range Kinds() {
		o, same := valid(k.Type), valid(k.Type)
		if err := Validate(o); err != nil || !reflect.DeepEqual(o, same) {
			t.Errorf("%s: %v, %+v", k.Type, err, o)
		}
	}
}

func TestDefaultsFillWhatIsAbsent(t *testing.T) {
	n, r := new(Network), new(Rule)
	ApplyDefaults(n)
	ApplyDefaults(r)
	if n.NwType != "data" || r.Priority != 1 {
		t.Errorf("nwType %q, priority %d", n.NwType, r.Priority)
	}
	n.NwType, r.Priority = "infra", 7
	ApplyDefaults(n)
	ApplyDefaults(r)
	if n.NwType != "infra" || r.Priority != 7 {
		t.Errorf("given values replaced: nwType %q, priority %d", n.NwType, r.Priority)
	}
}

// An error has the value, the rule and, except for lists and ranges, an example that matches the rule.
func TestEveryRefusalIsExplained(t *testing.T) {
	for _, v := range values {
		typ, name, _ := strings.Cut(v.field, ".")
		k, _ := KindByType(typ)
		f, _ := k.Field(name)
		if f.Rule != "" && !patterns[f.Rule].match(patterns[f.Rule].example) {
			t.Errorf("%s: the example %q is refused", f.Rule, patterns[f.Rule].example)
		}
		for _, value := range v.bad {
			o := valid(typ)
			if err := f.Set(o, value); err != nil {
				t.Fatal(err)
			}
			o.SetKey(o.ModelKey())
			told := fault.Explain(Validate(o))
			want := fmt.Sprintf("%s %#v: want %s", name, value, f.wanted())
			if told != want || f.wanted() == "anything" {
				t.Errorf("told %q, want %q", told, want)
			}
		}
		if v.tooLong > 0 {
			o := valid(typ)
			if err := f.Set(o, strings.Repeat("a", v.tooLong)); err != nil {
				t.Fatal(err)
			}
			o.SetKey(o.ModelKey())
			if told := fault.Explain(Validate(o)); !strings.Contains(told, fmt.Sprintf("has %d bytes, want at most %d", v.tooLong, f.Max)) || len(told) > 200 {
				t.Errorf("told %q", told)
			}
		}
	}
	n := &Network{TenantName: "blue", NetworkName: "web"}
	n.SetKey("other")
	if told := fault.Explain(Validate(n)); told != `key "other" of the network: its fields make it "blue:web"` {
		t.Errorf("told %q", told)
	}
}
