package netctl

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
)

// wantOutcome compares everything a user sees.
func wantOutcome(t *testing.T, line string, got, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("netctl %s:\n%s", line, diff)
	}
}

func TestCreateSendsFieldsAndSaysWhatIsDone(t *testing.T) {
	f, url := startFake(t)
	f.add(&contivmodel.Tenant{TenantName: "default"}, &contivmodel.Tenant{TenantName: "blue"})
	const links = `"link-sets":{},"links":{"Tenant":{}}}`
	for _, c := range []struct{ line, stdout, posted string }{
		{"tenant create red", "Creating tenant: red", `{"key":"red","tenantName":"red","link-sets":{}}`},
		{"network create web -t blue --subnet 10.7.0.0/24 -g 10.7.0.1", "Creating network blue:web",
			`{"key":"blue:web","encap":"vxlan","gateway":"10.7.0.1","networkName":"web","nwType":"data","subnet":"10.7.0.0/24","tenantName":"blue",` + links},
		{"net create -s=10.7.0.0/24 -s6 fd00::/64 --g6=fd00::1 -e vlan -p 7 --tag w.b -n infra web", "Creating network default:web",
			`{"key":"default:web","cfgdTag":"w.b","encap":"vlan","ipv6Gateway":"fd00::1","ipv6Subnet":"fd00::/64","networkName":"web","nwType":"infra","pktTag":7,"subnet":"10.7.0.0/24","tenantName":"default",` + links},
		{"group create web -t blue front -p one --policy two,three -n slow -r 10.7.0.10-10.7.0.20 -tag f.b", "Creating EndpointGroup blue:front",
			`{"key":"blue:front","cfgdTag":"f.b","groupName":"front","ipPool":"10.7.0.10-10.7.0.20","netProfile":"slow","networkName":"web","policies":["one","two,three"],"tenantName":"blue",` +
				`"link-sets":{},"links":{"AppProfile":{},"NetProfile":{},"Network":{},"Tenant":{}}}`},
		{"policy create p1 -t blue", "Creating policy blue:p1", `{"key":"blue:p1","policyName":"p1","tenantName":"blue",` + links},
		{"policy rule-add p1 -d in 1 -t blue -l tcp -P 80 -g front -p 10 -j deny", "Creating rule blue:p1:1",
			`{"key":"blue:p1:1","action":"deny","direction":"in","fromEndpointGroup":"front","policyName":"p1","port":80,"priority":10,"protocol":"tcp","ruleId":"1","tenantName":"blue",` +
				`"link-sets":{},"links":{"MatchEndpointGroup":{}}}`},
		{"policy rule-add p1 2 -d out -o web -s 10.0.0.0/8", "Creating rule default:p1:2",
			`{"key":"default:p1:2","action":"allow","direction":"out","policyName":"p1","priority":1,"ruleId":"2","tenantName":"default","toIpAddress":"10.0.0.0/8","toNetwork":"web",` +
				`"link-sets":{},"links":{"MatchEndpointGroup":{}}}`},
		{"netprofile create slow -b 10Mbps -d 7 -s 20", "Creating netprofile default:slow",
			`{"key":"default:slow","DSCP":7,"bandwidth":"10Mbps","burst":20,"profileName":"slow","tenantName":"default",` + links},
		{"app-profile create a1 -g x,y", "Creating AppProfile default:a1", `{"key":"default:a1","appProfileName":"a1","endpointGroups":["x","y"],"tenantName":"default",` + links},
		{"app-profile update a1", "Updating AppProfile default:a1", `{"key":"default:a1","appProfileName":"a1","tenantName":"default",` + links},
		{"service create shop -s web -l a=b -l c=d -p 80:8080:TCP --ip 10.7.0.9", "Creating ServiceLB default:shop",
			`{"key":"default:shop","ipAddress":"10.7.0.9","networkName":"web","ports":["80:8080:TCP"],"selectors":["a=b","c=d"],"serviceName":"shop","tenantName":"default","links":{"Network":{},"Tenant":{}}}`},
		{"bgp create n1 --router-ip 10.1.1.1/24 --as 1 --neighbor-as 2 --neighbor 10.1.1.2", "Creating Bgp router config: n1",
			`{"key":"n1","as":"1","hostname":"n1","neighbor":"10.1.1.2","neighbor-as":"2","routerip":"10.1.1.1/24"}`},
		{"external-contracts create c1 -c -a uni/x", "Creating ExternalContracts default:c1",
			`{"key":"default:c1","contracts":["uni/x"],"contractsGroupName":"c1","contractsType":"consumed","tenantName":"default","link-sets":{}}`},
		{"aci-gw set -d dom", "Updating aciGw", `{"key":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","name":"aciGw","physicalDomain":"dom"}`},
	} {
		wantOutcome(t, c.line, run(t, url, c.line), outcome{stdout: c.stdout + "\n"})
		if diff := cmp.Diff(c.posted, f.posted); diff != "" {
			t.Errorf("netctl %s posts:\n%s", c.line, diff)
		}
	}
	wantOutcome(t, "-q", run(t, url, "tenant create green -q"), outcome{})
}

func TestNamesMayBeThoseOfCommands(t *testing.T) {
	_, url := startFake(t)
	wantOutcome(t, "tenant create help", run(t, url, "tenant create help"), outcome{stdout: "Creating tenant: help\n"})
	wantOutcome(t, "tenant create -- h", run(t, url, "tenant create -- h"), outcome{stdout: "Creating tenant: h\n"})
}

func TestSetChangesOnlyWhatIsGiven(t *testing.T) {
	f, url := startFake(t)
	f.add(&contivmodel.Global{Name: "global", FwdMode: "routing", ArpMode: "proxy", Vlans: "1-100", Vxlans: "1-200", PvtSubnet: "172.20.0.0/16"})
	line := "global set -v 1-50 --arp-mode flood"
	wantOutcome(t, line, run(t, url, line), outcome{stdout: "Updating global\n"})
	want := `{"key":"global","arpMode":"flood","fwdMode":"routing","name":"global","pvtSubnet":"172.20.0.0/16","vlans":"1-50","vxlans":"1-200"}`
	if f.posted != want {
		t.Errorf("posted %s", f.posted)
	}
	f.add(&contivmodel.AciGw{Name: "aciGw", EnforcePolicies: "no", IncludeCommonTenant: "yes", PhysicalDomain: "dom"})
	run(t, url, "aci-gw set -n topology/pod-1/node-101")
	want = `{"key":"aciGw","enforcePolicies":"no","includeCommonTenant":"yes","name":"aciGw","nodeBindings":"topology/pod-1/node-101","physicalDomain":"dom"}`
	if f.posted != want {
		t.Errorf("posted %s", f.posted)
	}
}

func TestRemoveSaysSoAfterwards(t *testing.T) {
	f, url := startFake(t)
	f.add(&contivmodel.Policy{TenantName: "blue", PolicyName: "p1"}, &contivmodel.Tenant{TenantName: "blue"},
		&contivmodel.Rule{TenantName: "blue", PolicyName: "p1", RuleID: "1"}, &contivmodel.ServiceLB{TenantName: "blue", ServiceName: "s"},
		&contivmodel.ExtContractsGroup{TenantName: "blue", ContractsGroupName: "c"})
	for _, c := range []struct {
		line string
		want outcome
	}{
		{"tenant rm blue", outcome{6, "", "error: cannot delete blue has 1 networks\n  network blue:web\n"}},
		{"policy rule-rm p1 1 -t blue", outcome{stdout: "Deleting rule blue:p1:1\n"}},
		{"policy delete -t blue p1", outcome{stdout: "Deleting policy blue:p1\n"}},
		{"policy rm p1 -t blue", outcome{5, "", "error: policy not found: blue:p1\n"}},
		{"policy rm p1 -t blue --ignore-not-found", outcome{}},
		{"service rm s -t blue", outcome{stdout: "Deleting Service s,blue\n"}},
		{"external-contracts rm c -t blue", outcome{stdout: "Deleting external contracts group c in tenant blue\n"}},
		{"tenant rm blue", outcome{stdout: "Deleting tenant blue\n"}},
	} {
		wantOutcome(t, c.line, run(t, url, c.line), c.want)
	}
}

func TestInspectShowsTheAnswerAsItIs(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	for line, want := range map[string]outcome{
		"policy inspect p1 -t blue": {stdout: `{
  "Config": {
    "key": "blue:p1",
    "policyName": "p1",
    "tenantName": "blue",
    "link-sets": {},
    "links": {
      "Tenant": {}
    }
  },
  "Oper": {
    "numEndpoints": 2
  }
}
`},
		"ep inspect e1":         {stdout: "{\n  \"Oper\": {\n    \"key\": \"e1\",\n    \"endpointID\": \"e1\",\n    \"labels\": \"map[a:\\u003cb\\u003e]\"\n  }\n}\n"},
		"ep inspect e1 -o yaml": {stdout: "Oper:\n  endpointID: e1\n  key: e1\n  labels: map[a:<b>]\n"},
		"endpoint inspect e2":   {5, "", "error: endpoint not found: e2\n"},
		"endpoint inspect s/e2": {5, "", "error: endpoint not found: s/e2\n  a pod in the network of its host has none, and one that has ended\n"},
		"network inspect web":   {5, "", "error: network not found: default:web\n"},
	} {
		wantOutcome(t, line, run(t, url, line), want)
	}
	if got := run(t, url, "global inspect"); got.code != 0 || !strings.Contains(got.stdout, `"fwdMode": "routing"`) {
		t.Errorf("global inspect: %v", got)
	}
}

func TestMissingTenantsAreNotEmptyLists(t *testing.T) {
	_, url := startFake(t)
	for _, line := range []string{"network ls", "policy ls", "policy rule-ls p1", "group ls -q"} {
		wantOutcome(t, line, run(t, url, line), outcome{5, "", "error: tenant not found: default\n"})
	}
	wantOutcome(t, "network ls -a -q", run(t, url, "network ls -a -q -t nobody"), outcome{})
}

func TestRefusalsOfTheServerAreShown(t *testing.T) {
	f, url := startFake(t)
	for _, c := range []struct {
		line string
		want outcome
		old  string // from servers without problem documents; empty: the same
	}{
		{"tenant create a_b", outcome{3, "", "error: tenantName \"a_b\": want labels of letters, digits and inner hyphens, joined by dots, such as web-1\n"}, "error: tenantName string invalid format\n"},
		{"network create web -s 10.0.0.0/33", outcome{3, "", "error: subnet \"10.0.0.0/33\": want address/length or first-last/length, such as 10.1.2.0/24\n"}, "error: subnet string invalid format\n"},
		{"network create web -s 10.0.0.0/24", outcome{3, "", "error: Tenant not found\n"}, ""},
		{"policy rm p1", outcome{5, "", "error: policy not found: default:p1; there is no tenant default\n"}, ""},
	} {
		wantOutcome(t, c.line, run(t, url, c.line), c.want)
		f.plain = true
		if c.old != "" {
			c.want.stderr = c.old
		}
		wantOutcome(t, c.line+" (old server)", run(t, url, c.line), c.want)
		f.plain = false
	}
}

func TestUnusableServersAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String()
	l.Close()
	for _, line := range []string{"tenant ls", "version", "tenant create a", "global inspect"} {
		got := run(t, gone, line)
		if got.code != 2 || got.stdout != "" || !strings.HasPrefix(got.stderr, "error: cannot reach netmaster at "+gone) {
			t.Errorf("%s: %v", line, got)
		}
	}
	wantOutcome(t, "ftp", run(t, "ftp://x", "tenant ls"), outcome{1, "",
		"error: cannot connect: netmaster URL \"ftp://x\": must begin with http:// or https://\n"})
	wantOutcome(t, "no scheme", run(t, "192.0.2.1:9999", "tenant ls"), outcome{1, "",
		"error: cannot connect: netmaster URL \"192.0.2.1:9999\": must begin with http:// or https://\n"})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hung.Close()
	if got := run(t, hung.URL, "--request-timeout 50ms tenant ls"); got.code != 2 || !strings.Contains(got.stderr, "no answer in time") {
		t.Errorf("hung server: %v", got)
	}
	f, url := startFake(t)
	f.add(&contivmodel.Tenant{TenantName: "blue"})
	wantOutcome(t, "several servers", run(t, gone+","+url, "tenant ls -q"), outcome{stdout: "blue\n"})
}

func TestDeniedRequestsHaveTheirExitCode(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer s.Close()
	wantOutcome(t, "tenant ls", run(t, s.URL, "tenant ls"), outcome{7, "", "error: access denied\n"})
}

func TestTheEnvironmentNamesTheServer(t *testing.T) {
	f, url := startFake(t)
	f.add(&contivmodel.Tenant{TenantName: "blue"})
	t.Setenv("NETMASTER", url)
	t.Setenv("INSECURE", "perhaps") // unusable values count as unset
	var stdout, stderr strings.Builder
	if code := Run(t.Context(), []string{"netctl", "tenant", "ls", "-q"}, nil, &stdout, &stderr); code != 0 || stdout.String() != "blue\n" {
		t.Errorf("exit %d: %s%s", code, stdout.String(), stderr.String())
	}
	t.Setenv("NETMASTER", "ftp://wrong")
	wantOutcome(t, "flag before environment", run(t, url, "tenant ls -q"), outcome{stdout: "blue\n"})
	wantOutcome(t, "flag after the command", run(t, "http://127.0.0.1:1", "tenant ls -q --netmaster "+url), outcome{stdout: "blue\n"})
}

func TestVersionsOfBothSidesAreShown(t *testing.T) {
	_, url := startFake(t)
	got := run(t, url, "version")
	if got.code != 0 || !strings.HasPrefix(got.stdout, "Client Version:\nVersion: ") ||
		!strings.HasSuffix(got.stdout, "Server Version:\nVersion: 1.2.3\nGitCommit: abc\nBuildTime: today\n") {
		t.Errorf("version: %v", got)
	}
	for _, line := range []string{"--version", "-v"} {
		if got := run(t, "http://127.0.0.1:1", line); got.code != 0 || !strings.HasPrefix(got.stdout, "netctl version") || strings.Count(got.stdout, "\n") != 4 {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestHelpOnRequestIsNoError(t *testing.T) {
	for _, line := range []string{"", "help", "--help", "-h", "network", "network --help", "net h", "network create --help", "help network", "network help create",
		"help --help", "help -h", "h --help", "network help --help", "security help -h",
		"tenant create blue --help", "tenant create --help blue", "network create -t blue -s 10.1.1.0/24 web -h", "check now --help", "help network --help"} {
		got := run(t, "http://127.0.0.1:1", line)
		if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "USAGE:") {
			t.Errorf("netctl %s: %v", line, got)
		}
	}
}

// fullDisk fails every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestResultsThatCannotBeWrittenAreErrors(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	var stderr strings.Builder
	code := Run(context.Background(), []string{"netctl", "--netmaster", url, "tenant", "ls"}, nil, fullDisk{}, &stderr)
	if code != 4 || stderr.String() != "error: cannot write the result: no space left on device\n" {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func TestStoredTextsCannotSteerTheTerminal(t *testing.T) {
	f, url := startFake(t)
	f.add(&contivmodel.Bgp{Hostname: "n1", As: "1\x1b[2J\n2"})
	if got := run(t, url, "bgp ls --no-headers"); strings.ContainsRune(got.stdout, '\x1b') || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("bgp ls: %q", got.stdout)
	}
}
