package netctl

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

func populate(f *fakeMaster) {
	f.add(&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Tenant{TenantName: "default"},
		&contivmodel.Network{TenantName: "blue", NetworkName: "web", NwType: "data", Encap: "vxlan", Subnet: "10.7.0.0/24", Gateway: "10.7.0.1", PktTag: 5},
		&contivmodel.Network{TenantName: "blue", NetworkName: "app", NwType: "data", Encap: "vlan", Subnet: "10.8.0.0/24"},
		&contivmodel.Network{TenantName: "default", NetworkName: "other", NwType: "infra", Encap: "vlan", Subnet: "10.9.0.0/24", CfgdTag: "x"},
		&contivmodel.EndpointGroup{TenantName: "blue", GroupName: "front", NetworkName: "web", Policies: []string{"p1", "p2"}},
		&contivmodel.Policy{TenantName: "blue", PolicyName: "p1"},
		&contivmodel.Rule{TenantName: "blue", PolicyName: "p1", RuleID: "9", Priority: 1, Direction: "in", Action: "allow", Protocol: "tcp", Port: 80, FromEndpointGroup: "front"},
		&contivmodel.Rule{TenantName: "blue", PolicyName: "p1", RuleID: "1", Priority: 10, Direction: "in", Action: "deny"},
		&contivmodel.Rule{TenantName: "blue", PolicyName: "p2", RuleID: "1", Priority: 10, Direction: "out", Action: "deny"},
		&contivmodel.Netprofile{TenantName: "blue", ProfileName: "odd"},
		&contivmodel.Netprofile{TenantName: "blue", ProfileName: "slow", Bandwidth: "10 mbps", Burst: 20},
		&contivmodel.ServiceLB{TenantName: "blue", ServiceName: "s", NetworkName: "web", Selectors: []string{"a=b", "c=d"}},
		&contivmodel.AppProfile{TenantName: "blue", AppProfileName: "a", EndpointGroups: []string{"x", "y"}},
		&contivmodel.Bgp{Hostname: "n1", As: "1", NeighborAs: "2", Neighbor: "10.1.1.2", Routerip: "10.1.1.1/24"},
		&contivmodel.Global{Name: "global", FwdMode: "routing", ArpMode: "proxy", Vlans: "1-100", Vxlans: "1-200", PvtSubnet: "172.20.0.0/16", NetworkInfraType: "default"})
}

func TestListingsAreTables(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	for line, want := range map[string]string{
		"tenant ls": `
Name
----
blue
default
`,
		"network ls -t blue": `
Tenant  Network  Nw Type  Encap type  Packet tag  Subnet       Gateway   IPv6Subnet  IPv6Gateway  Cfgd Tag
------  -------  -------  ----------  ----------  ------       -------   ----------  -----------  --------
blue    app      data     vlan        0           10.8.0.0/24
blue    web      data     vxlan       5           10.7.0.0/24  10.7.0.1
`,
		"net list --all --no-headers": `
blue     app    data   vlan   0  10.8.0.0/24
blue     web    data   vxlan  5  10.7.0.0/24  10.7.0.1
default  other  infra  vlan   0  10.9.0.0/24                x
`,
		"group ls -t blue": `
Tenant  Group  Network  IP Pool  CfgdTag  Policies  Network profile
------  -----  -------  -------  -------  --------  ---------------
blue    front  web                        p1,p2
`,
		"policy ls": `
Tenant  Policy
------  ------
`,
		"policy rule-ls p1 -t blue": `
Incoming Rules:
Rule  Priority  From EndpointGroup  From Network  From IpAddress  To IpAddress  Protocol  Port  Action
----  --------  ------------------  ------------  --------------  ------------  --------  ----  ------
9     1         front                                                           tcp       80    allow
1     10                                                                                  0     deny
Outgoing Rules:
Rule  Priority  To EndpointGroup  To Network  To IpAddress  Protocol  Port  Action
----  --------  ----------------  ----------  ------------  --------  ----  ------
`,
		"netprofile ls -t blue": `
Name  Tenant  Bandwidth  DSCP  burst size
----  ------  ---------  ----  ----------
odd   blue               0     0
slow  blue    10Mbps     0     20
`,
		"service ls -t blue": `
ServiceName  Tenant  Network  Selectors
-----------  ------  -------  ---------
s            blue    web      [a=b c=d]
`,
		"bgp ls": `
HostName  RouterIP     AS  Neighbor  NeighborAS
--------  --------     --  --------  ----------
n1        10.1.1.1/24  1   10.1.1.2  2
`,
		"global info -t x -a": `
Fabric mode: default
Forward mode: routing
ARP mode: proxy
Vlan Range: 1-100
Vxlan range: 1-200
Private subnet: 172.20.0.0/16
`,
		"app-profile group-ls a -t blue": `
x,y
`,
	} {
		got := run(t, url, line)
		got.stdout = "\n" + got.stdout
		wantOutcome(t, line, got, outcome{stdout: want})
	}
}

func TestRulesAreShownWithWhatTheyHaveCounted(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	got := run(t, url, "policy rule-ls p1 -t blue -o wide")
	if got.stderr != "warning: not counted: node h3: does not answer\n" {
		t.Errorf("stderr %q", got.stderr)
	}
	lines := strings.Split(got.stdout, "\n")
	if !strings.Contains(lines[0], "Packets  Bytes") || !strings.Contains(lines[2], "0        0") || !strings.Contains(lines[3], "7        700") {
		t.Errorf("got\n%s", got.stdout)
	}
	if !strings.HasPrefix(lines[0], "Direction  Rule") || !strings.HasPrefix(lines[2], "in         9") {
		t.Errorf("without the direction, which is in one table with the other:\n%s", got.stdout)
	}
	f.plain = true // a server that counts nothing
	if got := run(t, url, "policy rule-ls p1 -t blue -o wide"); got.code != 0 || strings.Contains(got.stdout, "Packets") {
		t.Errorf("old server: %v", got)
	}
}

func TestListingsHaveOtherFormats(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	policies := `[
  {
    "key": "blue:p1",
    "policyName": "p1",
    "tenantName": "blue",
    "link-sets": {},
    "links": {
      "Tenant": {}
    }
  }
]
`
	for line, want := range map[string]string{
		"policy ls -t blue -j":         policies,
		"policy ls -t blue -q -j":      policies,
		"policy ls -a -o json":         policies,
		"policy ls -j":                 "[]\n",
		"network ls -a -q":             "app\nweb\nother\n",
		"network ls -t blue -o name":   "network/blue:app\nnetwork/blue:web\n",
		"network ls -o csv":            "Tenant,Network,Nw Type,Encap type,Packet tag,Subnet,Gateway,IPv6Subnet,IPv6Gateway,Cfgd Tag\ndefault,other,infra,vlan,0,10.9.0.0/24,,,,x\n",
		"tenant ls -o yaml":            "- key: blue\n  link-sets: {}\n  tenantName: blue\n- key: default\n  link-sets: {}\n  tenantName: default\n",
		"policy rule-ls p1 -t blue -q": "9\n1\n",
		"policy rule-ls p1 -t blue -o csv": "Direction,Rule,Priority,From EndpointGroup,From Network,From IpAddress,To EndpointGroup,To Network,To IpAddress,Protocol,Port,Action\n" +
			"in,9,1,front,,,,,,tcp,80,allow\nin,1,10,,,,,,,,0,deny\n",
		"bgp ls --quiet": "n1\n",
	} {
		wantOutcome(t, line, run(t, url, line), outcome{stdout: want})
	}
}
