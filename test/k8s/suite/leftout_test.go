package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// omission is a part of upstream's network tests that is left out for a reason.
type omission struct {
	names string // regular expression
	want  int    // how many that are
	why   string
}

// leftOut are those that no part has.
var leftOut = []omission{
	{`Feature:LoadBalancer`, 17, "they need a provider of load balancers, which these machines lack"},
	{`Feature:SCTPConnectivity`, 9, "they send SCTP, which this kernel does not have"},
	{`\[Disruptive\]`, 3, "they stop daemons, as the stories of test/k8s/life do, or are about rules of kube-proxy, which there is none of"},
	{`KubeProxy`, 2, "they are about settings of kube-proxy, which there is none of"},
	{`DNS configMap nameserver`, 3, "they change the configuration of the cluster's CoreDNS, which others ask meanwhile"},
	{`Provider:GCE`, 1, "it asks for names of Google's cloud"},
	{`Feature:PerformanceDNS`, 1, "it makes ten thousand services to measure CoreDNS"},
	{`Feature:Networking-Performance`, 1, "it measures, and asserts nothing"},
	{`Internet connection`, 3, "these machines have none"},
	{`service endpoints using hostNetwork`, 1, "pods ask processes of nodes by datagrams in fragments, which Open vSwitch in user space does not take to them"},
	{`invalid conntrack state`, 1, "its server answers the end of one connection as if it were the beginning of another, where both come at once"},
	{`Ingress API|IngressClass|Netpol API|ServiceCIDR and IPAddress API`, 10, "they ask the API server only"},
}

// Whatever upstream has of network tests runs in a part, or is left out for a reason.
func TestNoTestIsLeftOutWithoutAReason(t *testing.T) {
	if os.Getenv("CONTIV_TEST_K8S") == "" {
		t.Skip("needs what `make k8s-build` builds: make e2e-k8s")
	}
	list, err := exec.CommandContext(t.Context(), filepath.Join("../../../bin/k8s", "e2e.test"), "--list-tests").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(parts, partsOfLarge)
	run, count := make([]int, len(all)), make([]int, len(leftOut))
	for line := range strings.Lines(string(list)) {
		_, name, is := strings.Cut(strings.TrimSpace(line), ": ")
		if !is || !strings.Contains(name, "[sig-network]") {
			continue
		}
		runs := false
		for i, p := range all {
			if regexp.MustCompile(p.focus).MatchString(name) && (p.skip == "" || !regexp.MustCompile(p.skip).MatchString(name)) {
				runs = true
				run[i]++
			}
		}
		why := slices.IndexFunc(leftOut, func(o omission) bool { return regexp.MustCompile(o.names).MatchString(name) })
		switch {
		case runs:
		case why < 0:
			t.Errorf("%s is in no part, and nothing says why", name)
		default:
			count[why]++
		}
	}
	for i, p := range all {
		if run[i] != p.want {
			t.Errorf("%s: there are %d tests, want %d", p.name, run[i], p.want)
		}
	}
	for i, o := range leftOut {
		if count[i] != o.want {
			t.Errorf("%s: %d tests are left out, want %d", o.names, count[i], o.want)
		}
	}
}
