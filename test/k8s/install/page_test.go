package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/netplugin/test/k8s/clustertest"
	"github.com/contiv/netplugin/test/pages"
)

// page is where the commands stand.
const page = clustertest.Page

// follow runs the commands of a section of the page.
func (i installation) follow(title string) {
	i.Helper()
	clustertest.Follow(i.T, i.Cluster, title)
}

// byThePage installs by the commands of the page, with its examples of patches.
func (i installation) byThePage() {
	if err := os.Symlink(i.Bin, filepath.Join(i.Files(), "bin")); err != nil {
		i.Fatal(err)
	}
	i.patched("three")
	i.follow("Install")
	i.must(i.Settle(i.Context()))
}

// shown is what the page's commands are to show: a pod that a policy isolates, with a port of
// its node, on the first node.
const shown = `
apiVersion: v1
kind: Pod
metadata: {name: shown, labels: {app: shown}}
spec:
  nodeName: node1
  terminationGracePeriodSeconds: 0
  containers:
  - name: shown
    image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
    args: [netexec]
    ports: [{containerPort: 8080, hostPort: 18080}]
---
apiVersion: v1
kind: Service
metadata: {name: shown}
spec:
  selector: {app: shown}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: shown}
spec:
  podSelector: {matchLabels: {app: shown}}
  ingress: [{from: [{podSelector: {}}], ports: [{port: 8080}]}]
`

// closing is the section that is for clusters of earlier versions.
const closing = "Close an open installation"

// upgrading is the section that needs another version.
const upgrading = "Upgrade"

// upgradeByThePage upgrades by the commands of the page, to images that are the same under another name, while
// pods talk.
func (i installation) upgradeByThePage() {
	const next = "localhost/contiv/netplugin:next"
	for _, n := range i.Nodes {
		_, err := n.Run(i.Context(), "ctr", "--namespace", "k8s.io", "images", "tag", "localhost/contiv/netplugin:1.0.0", next)
		i.must(err)
	}
	base := filepath.Join(i.Installation("base"), "kustomization.yaml")
	text, err := os.ReadFile(base)
	i.must(err)
	newer := strings.Replace(string(text), "newTag: 1.0.0", "newTag: next", 1)
	if newer == string(text) {
		i.Fatalf("%s has another version:\n%s", base, text)
	}
	i.must(os.WriteFile(base, []byte(newer), 0o644))
	i.withoutLoss("upgrade", func() { i.follow(upgrading) })
	i.soon(func(ctx context.Context) error { // those of before end
		images, err := i.Kubectl(ctx, "--namespace", "kube-system", "get", "pods", "--selector", "app in (contiv-netmaster, contiv-netplugin)",
			"--output", "jsonpath={.items[*].spec.containers[*].image}")
		if all := strings.Fields(images); err == nil && (len(all) != 6 || strings.Count(images, ":next") != len(all)) {
			err = fmt.Errorf("images %q", all)
		}
		return err
	})
}

// setUpAnew is the section about a netmaster that has lost its data.
const setUpAnew = "A machine of a netmaster is set up anew"

// growing is the section about the way from one netmaster to three.
const growing = "From one netmaster to three"

// encrypting is the section about values that the store has encrypted.
const encrypting = "Encrypt what the store has"

// lookAround runs the commands of the page that show something.
func (i installation) lookAround() {
	manifest := filepath.Join(i.Files(), "shown.yaml")
	i.must(os.WriteFile(manifest, []byte(shown), 0o644))
	i.kubectl("apply", "--filename", manifest)
	i.kubectl("wait", "pod/shown", "--for=condition=Ready", "--timeout", shortly.String())
	sections, err := pages.Commands(page)
	i.must(err)
	for _, s := range sections {
		if !slices.Contains([]string{"Install", "Remove", "A cluster to look around in", closing, upgrading, setUpAnew, growing, encrypting, onlyIPv6, "End it", "Take its rules away", "See that it is gone"}, s.Title) {
			i.follow(s.Title)
		}
	}
	i.kubectl("delete", "--filename", manifest)
}
