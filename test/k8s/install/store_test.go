package install

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
)

// An installation whose members of the store are plain, as those of before, is upgraded by applying the manifests.
func TestMembersOfAnInstallationOfBeforeGetTLS(t *testing.T) {
	inCluster(t, cluster.Config{Nodes: 3, Install: "three", ByHand: true}, []part{
		{"its members are plain", installation.plainMembers},
		{"the new manifests are applied, and nothing is lost", installation.membersGetTLS},
		{"it is closed", installation.closed},
	})
}

// rewrite replaces the schemes of the members' URLs in the manifests.
func (i installation) rewrite(old, now string) {
	i.Helper()
	for _, name := range []string{"base/netmaster.yaml", "three/contiv.env"} {
		path := i.Installation(name)
		text, err := os.ReadFile(path)
		i.must(err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "etcd-client-url") || strings.Contains(line, "ETCD_PEERS=") {
				line = strings.ReplaceAll(line, old+"://", now+"://")
			}
			lines = append(lines, line)
		}
		i.must(os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
	}
}

// plainMembers installs with members that speak plainly, in an enforced cluster. Netmasters of before founded such
// ones, and these refuse to: the cluster is founded as an open one and gets its CAs, and the last step is what
// one of before has written.
func (i installation) plainMembers() {
	i.patched("three")
	i.rewrite("https", "http")
	i.founding("--secure", "--insecure")
	i.applyMembers()
	i.founding("--insecure", "--secure")
	i.applyMembers()
	i.must(i.Settle(i.Context()))
	if err := i.knock(i.Nodes[0], "http"); err != nil {
		i.Errorf("it is not as before: %v", err)
	}
	i.enforce()
	i.soon(func(ctx context.Context) error { // there may be another leader at any moment
		_, err := i.Kubectl(ctx, "--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl", "tenant", "create", "before")
		return err
	})
}

// founding replaces the flag in the manifests for the kind of cluster that netmasters found.
func (i installation) founding(old, now string) {
	i.Helper()
	path := i.Installation("base/netmaster.yaml")
	text, err := os.ReadFile(path)
	i.must(err)
	changed := strings.Replace(string(text), "- "+old+" ", "- "+now+" ", 1)
	if changed == string(text) {
		i.Fatalf("%s does not say %s", path, old)
	}
	i.must(os.WriteFile(path, []byte(changed), 0o644))
}

// applyMembers applies the manifests, and returns when netmasters are rolled out.
func (i installation) applyMembers() {
	i.Helper()
	i.kubectl("apply", "--kustomize", i.Installation("three"))
	i.kubectl("--namespace", "kube-system", "rollout", "status", "deployment/contiv-netmaster", "--timeout", (3 * shortly).String())
}

// enforce writes into the store, by the member on the first node, that the cluster is enforced.
func (i installation) enforce() {
	const member = "ETCDCTL_API=3 etcdctl --endpoints http://127.0.0.1:6666 "
	was, err := i.Nodes[0].Run(i.Context(), "sh", "-c", member+"get --print-value-only "+mastercfg.SecurityKey)
	i.must(err)
	now := strings.Replace(strings.TrimSpace(was), `"permissive"`, `"enforced"`, 1)
	if now == strings.TrimSpace(was) {
		i.Fatalf("%s is %s", mastercfg.SecurityKey, was)
	}
	_, err = i.Nodes[0].Run(i.Context(), "sh", "-c", member+"put "+mastercfg.SecurityKey+" '"+now+"'")
	i.must(err)
}

// membersGetTLS applies the manifests as they are while pods talk.
func (i installation) membersGetTLS() {
	i.withoutLoss("tls", func() {
		i.rewrite("http", "https")
		i.kubectl("apply", "--kustomize", i.Installation("three"))
		i.must(i.AwaitInstalled(i.Context()))
	})
	if said := i.netctl("tenant", "ls"); !strings.Contains(said, "before") {
		i.Errorf("what there was is lost: %s", said)
	}
}

// knock asks the member on a node for its version as others would, at the port for members, from another node and
// without a certificate.
func (i installation) knock(n *testbed.Node, scheme string) error {
	from := i.Nodes[0]
	if n == from {
		from = i.Nodes[1]
	}
	transport := &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	req, err := http.NewRequestWithContext(i.Context(), http.MethodGet, scheme+"://"+n.At(6667)+"/version", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", resp.Status)
	}
	if resp != nil {
		resp.Body.Close()
	}
	return err
}

// closedMembers waits until no member of the store answers clients without a certificate. Members of an
// installation without certificates are restarted when there are some.
func (i installation) closedMembers() {
	i.soon(func(ctx context.Context) error {
		for _, n := range i.Nodes {
			for _, scheme := range []string{"http", "https"} {
				if i.knock(n, scheme) == nil {
					return fmt.Errorf("the member of %s answers everybody by %s", n.Name, scheme)
				}
			}
		}
		said, err := i.Kubectl(ctx, "--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl", "check")
		if err == nil && !strings.Contains(said, "store: https://127.0.0.1:6666") {
			err = fmt.Errorf("netctl check says %s", said)
		}
		return err
	})
}

// lostMember deletes a netmaster's data and keys, as if its machine was set up again, and follows the page.
func (i installation) lostMember() {
	n := i.Nodes[2]
	if _, err := n.Run(i.Context(), "sh", "-c", "rm -r /var/lib/contiv/etcd/* /var/lib/contiv/netmaster/*"); err != nil {
		i.Fatal(err)
	}
	i.kubectl("--namespace", "kube-system", "delete", "pods", "--selector", "app=contiv-netmaster", "--field-selector", "spec.nodeName="+n.Name, "--grace-period", "1", "--timeout", shortly.String())
	i.follow(setUpAnew)
	i.must(i.AwaitInstalled(i.Context()))
	i.closedMembers()
	i.pod("set-up-anew", 3)
}
