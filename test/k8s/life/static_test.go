package life

import (
	"fmt"
	"strings"
)

// staticPods is where kubelet finds the files of static pods (files/kubelet.yaml of the cluster).
const staticPods = "/var/lib/kubelet/static"

const staticPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static", "namespace": "default", "labels": {"run": "static"}},
"spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "` + podImage + `", "command": ["sleep", "1000000"]}]}}`

// static: a static pod starts while the API server is away, isolated but for its own node, and is a pod like others when that is back.
func (s *story) static() {
	n, other := s.Nodes[0], s.pod("other", 1)
	name := "static-" + n.Name // as kubelet calls it

	s.must(s.Process(n, "kube-apiserver").Kill())
	_, err := n.Run(s.ctx, "sh", "-ec", `printf %s "$2" > "$1"`, "sh", staticPods+"/static.json", staticPod)
	s.must(err)
	var at checkpoint
	s.soon(func() (err error) {
		if at, err = sandbox(s.ctx, n, name); err == nil && at.State != "ready" {
			err = fmt.Errorf("pod %s: %+v", name, at)
		}
		return err
	})
	out, err := n.Run(s.ctx, "nsenter", "--net="+at.Netns, "sh", "-ec", `ip -4 -o address show eth0 | grep -oE 'inet [0-9.]+' | cut -c 6-`)
	s.must(err)
	address := strings.TrimSpace(out)
	s.soon(func() error { _, err := n.Run(s.ctx, "ping", "-c", "1", "-W", "1", address); return err })
	s.must(s.isolated(other, address))

	s.must(s.StartAPIServer(s.ctx))
	s.soon(func() error {
		mirror, err := get(s.ctx, s.api, name)
		if err == nil && mirror.Status.PodIP != address {
			err = fmt.Errorf("the API server knows address %q, want %s", mirror.Status.PodIP, address)
		}
		return err
	})
	s.soon(func() error { return s.reaches(other, address) })
	s.policy("none", object{"podSelector": selects("static")})
	s.soon(func() error { return s.isolated(other, address) })
	s.noPolicy("none")
	s.soon(func() error { return s.reaches(other, address) })

	_, err = n.Run(s.ctx, "rm", staticPods+"/static.json")
	s.must(err)
	s.soon(func() error {
		if _, err := sandbox(s.ctx, n, name); err == nil {
			return fmt.Errorf("pod %s is still there", name)
		}
		return nil
	})
}
