package install

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// An installation of an earlier version is closed by the commands of the page.
func TestAnOpenInstallationIsClosed(t *testing.T) {
	inCluster(t, cluster.Config{Nodes: 3, Install: "three", ByHand: true}, []part{
		{"it is open", installation.open},
		{"the page closes it, and no packet is lost", installation.close},
		{"it is closed", installation.closed},
		{"everything starts anew", installation.restartOfAll},
	})
}

// open installs an open cluster, as earlier versions did.
func (i installation) open() {
	i.patched("three")
	i.must(os.CopyFS(i.Installation("open"), os.DirFS("testdata/open")))
	i.kubectl("apply", "--kustomize", i.Installation("open"))
	i.must(i.Settle(i.Context()))
	if code, err := i.plain("/networks/"); err != nil || code != http.StatusOK {
		i.Errorf("plain HTTP: %d, %v", code, err)
	}
}

// close closes it while pods talk.
func (i installation) close() {
	i.withoutLoss("close", func() { i.follow(closing) })
}

// closed checks that what is closed cannot be reached, and that what is needed works.
func (i installation) closed() {
	if said := i.netctl("security", "status"); !strings.Contains(said, "enforced") {
		i.Errorf("security status: %s", said)
	}
	if code, err := i.plain("/networks/"); err != nil || code != http.StatusForbidden {
		i.Errorf("plain HTTP: %d, %v", code, err)
	}
	for number, n := range i.Nodes {
		// From another node: etcd for clients.
		if out, err := i.Nodes[(number+1)%len(i.Nodes)].Run(i.Context(), "timeout", "3", "bash", "-c", fmt.Sprintf("echo >/dev/tcp/%s/6666", n.MgmtIP)); err == nil {
			i.Errorf("the store of %s is reached by others: %s", n.Name, out)
		}
	}
	i.closedMembers()
	i.agentsSeeNoKeys()
	for n := range i.Nodes {
		i.pod(fmt.Sprintf("closed%d", n+1), n+1)
	}
}

// agentsSeeNoKeys looks at what netplugin has of the netmaster on its machine.
func (i installation) agentsSeeNoKeys() {
	const look = `for p in /proc/[0-9]*; do
	[ "$(cat $p/comm 2>/dev/null)" = netplugin ] || continue
	echo found
	ls -A $p/root/var/lib/contiv/etcd $p/root/var/lib/contiv/netmaster
	ls -d $p/root/run/contiv/netmaster*
done
true`
	for _, n := range i.Nodes {
		seen, err := n.Run(i.Context(), "sh", "-c", look)
		if !strings.HasPrefix(seen, "found") || err != nil {
			i.Errorf("netplugin of %s: %s, %v", n.Name, seen, err)
		}
		for _, part := range []string{"pki", "member", ".sock", "key"} {
			if strings.Contains(seen, part) {
				i.Errorf("netplugin of %s sees %s", n.Name, seen)
			}
		}
	}
}

// restartOfAll has all our daemons start at once.
func (i installation) restartOfAll() {
	i.kubectl("--namespace", "kube-system", "delete", "pods", "--selector", "app in (contiv-netmaster, contiv-netplugin)", "--timeout", shortly.String())
	i.must(i.AwaitInstalled(i.Context()))
	i.pod("restarted", 3)
}

// lostKeys has a node, and the netmaster on it, lose their certificates and keys: Kubernetes vouches for them
// again.
func (i installation) lostKeys() {
	n := i.Nodes[2]
	before := i.netctl("node", "ls")
	if _, err := n.Run(i.Context(), "sh", "-c", "rm -r /var/lib/contiv/node /var/lib/contiv/netmaster/*"); err != nil {
		i.Fatal(err)
	}
	i.kubectl("--namespace", "kube-system", "delete", "pods", "--selector", "app in (contiv-netmaster, contiv-netplugin)", "--field-selector", "spec.nodeName="+n.Name, "--timeout", shortly.String())
	i.must(i.AwaitInstalled(i.Context()))
	i.soon(func(ctx context.Context) error {
		_, err := n.Run(ctx, "ls", "/var/lib/contiv/netmaster/pki/api-ca.key")
		return err
	})
	i.pod("anew", 3)
	i.Logf("%s\nbecame\n%s", before, i.netctl("node", "ls"))
}

// netctl asks as root, in the pod of a netmaster.
func (i installation) netctl(args ...string) string {
	i.Helper()
	return i.kubectl(append([]string{"--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl"}, args...)...)
}

// plain asks the first netmaster over plain HTTP, from the second node.
func (i installation) plain(path string) (code int, err error) {
	transport := &http.Transport{DialContext: i.Nodes[1].DialContext, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(i.Context(), http.MethodGet, "http://"+i.Nodes[0].At(9999)+"/api/v1"+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// patched has tunnels in a network of their own, and netmasters on nodes with a label, by the examples of the page.
func (i installation) patched(folder string) {
	i.Helper()
	text, err := os.ReadFile(page)
	i.must(err)
	patch := "patches:\n"
	for _, block := range strings.Split(string(text), "```yaml\npatches:\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		patch += block
	}
	const example, label = "10.7.0.0/16", "contiv.io/netmaster"
	if !strings.Contains(patch, example) || !strings.Contains(patch, label) {
		i.Fatalf("the examples of the page are others:\n%s", patch)
	}
	i.kubectl("label", "node", "--all", label+"=")
	own, err := os.OpenFile(filepath.Join(i.Installation(folder), "kustomization.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	i.must(err)
	_, err = own.WriteString(strings.ReplaceAll(patch, example, i.VTEPNetwork()))
	i.must(err)
	i.must(own.Close())
}
