package netctl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netctl/manifest"
)

// A user who may see a tenant, but not the cluster's objects, can export the tenant, and lists the visible
// objects.
func TestWhoSeesATenantExportsIt(t *testing.T) {
	fake, url := startFake(t)
	fake.denied = []string{"globals", "Bgps", "aciGws"}
	fake.add(&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Tenant{TenantName: "red"}, &contivmodel.Policy{TenantName: "blue", PolicyName: "shop"})
	got := run(t, url, "export -t blue")
	if got.code != 0 || strings.Count(got.stdout, "---\n") != 2 || strings.Contains(got.stdout, "red") || got.stderr != "" {
		t.Errorf("export: %v", got)
	}
	if got := run(t, url, "export"); got.code != 7 || got.stdout != "" { // which would lack something, and not say so
		t.Errorf("export of everything: %v", got)
	}
	listed := run(t, url, "get all -A")
	if listed.code != 0 || !strings.Contains(listed.stdout, "shop") || strings.Count(listed.stderr, "warning: ") != len(fake.denied) || !strings.Contains(listed.stderr, "globals are not shown: ") {
		t.Errorf("get all: %v", listed)
	}
}

func TestATenantWithoutObjectsIsSaidToHaveNone(t *testing.T) {
	fake, url := startFake(t)
	fake.add(&contivmodel.Tenant{TenantName: "blue"})
	if got := run(t, url, "get all -t blue"); got.code != 0 || got.stdout != "" || got.stderr != "tenant blue has no objects\n" {
		t.Errorf("get all: %v", got)
	}
	if got := run(t, url, "get all -t blue -o json"); got.code != 0 || got.stdout != "[]\n" || got.stderr != "" {
		t.Errorf("get all -o json: %v", got)
	}
}

// An export has everything: a new cluster that gets it exports the same.
func TestAnExportMakesTheSameClusterElsewhere(t *testing.T) {
	store := startStore(t)
	url := store.startMaster(t)
	for _, line := range []string{
		"tenant create blue --default-network web",
		"global set --vlan-range 10-200 --arp-mode flood",
		"network create web -t blue -s 10.7.0.0/24 -g 10.7.0.254 --nw-tag web.tag",
		"network create lan -t blue -s 10.8.0.10-10.8.0.99/24 -e vlan -p 100 --subnetv6 2001:db8::/64",
		"network create web -s 10.7.0.0/24",
		"policy create shop -t blue", "policy create data -t blue",
		"netprofile create slow -t blue -b '10 mbps' -d 7",
		"external-contracts create ext -t blue -c -a uni/tn-common/brc-web",
		"group create lan back -t blue", // group ids follow the order of creation, and that of an export is by name
		"group create web front -t blue -p shop -p data -r 10.7.0.10-10.7.0.20 -n slow -e ext",
		"policy rule-add shop 1 -t blue -d in -l tcp -P 80 -g back -p 10 -j deny",
		"policy rule-add shop 2 -t blue -d out -s 10.0.0.0/8",
		"app-profile create app -t blue -g front,back",
		"service create vip -t blue -s web -l app=shop -p 80:8080:TCP --ip 10.7.0.9",
		"bgp create n1 --router-ip 10.1.1.1/24 --as 65001 --neighbor-as 65002 --neighbor 10.1.1.2",
		"aci-gw set --phys-dom dom",
	} {
		if got := run(t, url, line); got.code != 0 {
			t.Fatalf("netctl %s: %v", line, got)
		}
	}
	exported := run(t, url, "export")
	if exported.code != 0 || strings.Count(exported.stdout, "---\n") != 18 {
		t.Fatalf("export: %v", exported)
	}
	documents, err := manifest.Reader{Kind: findKind, Stdin: strings.NewReader(exported.stdout)}.Read("-")
	if err != nil {
		t.Fatal(err)
	}
	other := startStore(t)
	elsewhere := other.startMaster(t)
	applied := typing(t, elsewhere, "apply -f -", exported.stdout)
	if applied.code != 0 || strings.Count(applied.stdout, "\n") != 18 || strings.Count(applied.stdout, "created") != 16 {
		t.Errorf("apply of an export: %v", applied) // the global object is changed, the tenant default there
	}
	if diff := cmp.Diff(exported.String(), run(t, elsewhere, "export").String()); diff != "" {
		t.Error(diff)
	}
	for _, what := range []string{"/contiv.io/obj/", "/contiv.io/state/"} {
		if diff := cmp.Diff(store.content(t, what), other.content(t, what)); diff != "" {
			t.Errorf("what the stores hold below %s:\n%s", what, diff)
		}
	}
	again := typing(t, elsewhere, "apply -f -", exported.stdout)
	if again.code != 0 || strings.Count(again.stdout, "unchanged") != 18 {
		t.Errorf("apply of the same export again: %v", again)
	}
	blue := run(t, url, "export -t blue")
	if strings.Contains(blue.stdout, "tenant: default") || strings.Count(blue.stdout, "---\n") != 13 {
		t.Errorf("export of one tenant: %v", blue)
	}
	asJSON := run(t, url, "export -o json")
	fromJSON, err := manifest.Reader{Kind: findKind, Stdin: strings.NewReader(asJSON.stdout)}.Read("-")
	if err != nil || len(fromJSON) != len(documents) {
		t.Errorf("%d documents as JSON, %v", len(fromJSON), err)
	}
}
