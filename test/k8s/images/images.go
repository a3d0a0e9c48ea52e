// Package images builds the container images of a test cluster from static Go programs and tools of this machine,
// without a registry to pull from. The images have the names that Kubernetes' own tests use.
package images

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/contiv/netplugin/utils/imagefile"
)

// Names that the cluster itself uses.
const (
	Pause   = "registry.k8s.io/pause:3.10.2"
	CoreDNS = "registry.k8s.io/coredns/coredns:v1.15.0"
)

// Names that the suites of Kubernetes v1.36, of network-policy-api v0.2 and of
// cyclonus v0.5 use (k8s.io/kubernetes/test/utils/image, cyclonus/pkg/connectivity/probe).
const (
	agnhost    = "registry.k8s.io/e2e-test-images/agnhost:"
	busybox    = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	nginx      = "registry.k8s.io/e2e-test-images/nginx:1.15-4"
	glibcDNS   = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0"
	regression = "registry.k8s.io/e2e-test-images/regression-issue-74839:1.4"
	worker     = "docker.io/mfenwick100/cyclonus-worker:latest"
)

// Sources are the folders from which images are built.
type Sources struct {
	Bin    string // programs built for the cluster
	Porter string // agnhost's example certificate and key
}

// Build writes all images into an archive at path.
func Build(ctx context.Context, from Sources, path string) error {
	tools, whole := toolsLayer(ctx), agnhostLayer(from)
	images := []imagefile.Image{
		{Names: []string{Pause}, Layers: []*imagefile.Layer{programLayer(from, "pause")}, Entrypoint: []string{"/pause"}},
		{Names: []string{CoreDNS}, Layers: []*imagefile.Layer{programLayer(from, "coredns")}, Entrypoint: []string{"/coredns"}},
		{Names: []string{regression}, Layers: []*imagefile.Layer{programLayer(from, "regression-issue-74839")}, Entrypoint: []string{"/regression-issue-74839"}},
		{Names: []string{busybox, glibcDNS}, Layers: []*imagefile.Layer{tools}, Cmd: []string{"sh"}},
		{Names: []string{agnhost + "2.63.0", nginx}, Layers: []*imagefile.Layer{tools, whole}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}},
		{Names: []string{agnhost + "2.45", agnhost + "2.43"}, Layers: []*imagefile.Layer{tools, whole, withoutSCTP()}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}},
		{Names: []string{worker}, Layers: []*imagefile.Layer{workerLayer(from)}, Entrypoint: []string{"/worker"}},
	}
	if err := imagefile.Write(path, runtime.GOARCH, images...); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	return nil
}

func programLayer(from Sources, name string) *imagefile.Layer {
	l := imagefile.NewLayer()
	l.Program("/"+name, filepath.Join(from.Bin, name))
	return l
}

// toolsLayer has the programs that the suites run in pods by name. The shell is dash: busybox's shell would use
// its built-in nc, which does not support UDP.
func toolsLayer(ctx context.Context) *imagefile.Layer {
	l := imagefile.NewLayer()
	for _, dir := range []string{"/etc", "/usr", "/usr/bin", "/var", "/root"} {
		l.Dir(dir, 0o755)
	}
	l.Dir("/tmp", 0o1777)
	l.Link("/bin", "usr/bin")
	l.Link("/sbin", "usr/bin")
	l.Text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
	l.Text("/etc/group", "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n")
	l.Text("/etc/nsswitch.conf", "hosts: files dns\n")
	l.Tools(ctx, "sh", "bash", "curl", "dig", "nslookup", "nc", "iperf", "ss", "ip", "wget", "getent", "hostname", "conntrack", "busybox")
	for _, applet := range []string{
		"awk", "base64", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "dirname", "echo", "env", "expr", "false", "find", "grep", "head", "id",
		"kill", "ln", "ls", "mkdir", "mktemp", "mv", "nohup", "ping", "ping6", "printf", "ps", "pwd", "readlink", "rm", "rmdir", "route", "sed", "seq", "sleep",
		"sort", "stat", "stty", "tail", "tar", "tee", "telnet", "test", "timeout", "top", "touch", "tr", "traceroute", "true", "uname", "uniq", "vi", "wc", "which", "xargs", "yes",
	} {
		l.Link("/usr/bin/"+applet, "busybox")
	}
	return l
}

// agnhostProgram is the path of the program; tests start it by other names.
const agnhostProgram = "/usr/libexec/agnhost"

func agnhostLayer(from Sources) *imagefile.Layer {
	l := imagefile.NewLayer()
	l.Program(agnhostProgram, filepath.Join(from.Bin, "agnhost"))
	l.Link("/agnhost", agnhostProgram)
	l.Link("/agnhost-2", agnhostProgram)
	l.Program("/coredns", filepath.Join(from.Bin, "coredns"))
	l.File("/localhost.crt", filepath.Join(from.Porter, "localhost.crt"))
	l.File("/localhost.key", filepath.Join(from.Porter, "localhost.key"))
	l.Dir("/uploads", 0o755)
	return l
}

// workerLayer has the worker for probes in the pods of cyclonus, and a small agnhost.
func workerLayer(from Sources) *imagefile.Layer {
	l := imagefile.NewLayer()
	l.Program("/worker", filepath.Join(from.Bin, "worker"))
	l.Program("/agnhost", filepath.Join(from.Bin, "connect"))
	return l
}

// withoutSCTP replaces the SCTP servers of the policy suites by programs that do not serve: this kernel may not
// support SCTP, and the servers would end.
func withoutSCTP() *imagefile.Layer {
	l := imagefile.NewLayer()
	l.Script("/agnhost", `#!/bin/sh
if [ "$1" = porter ] && env | grep -q ^SERVE_SCTP_PORT; then set -- pause; fi
exec `+agnhostProgram+` "$@"
`)
	return l
}

// KubeProxy is the image of kube-proxy in clusters made by kubeadm.
const KubeProxy = "registry.k8s.io/kube-proxy:v1.36.3"

// BuildKubeProxy writes the image KubeProxy into an archive at path.
func BuildKubeProxy(ctx context.Context, from Sources, path string) error {
	l := toolsLayer(ctx)
	l.Tools(ctx, "nft")
	l.File("/etc/protocols", "/etc/protocols") // without it nft prints numbers, and a restarted kube-proxy does not recognize its own rules
	for _, version := range []string{"iptables", "ip6tables"} {
		l.Tools(ctx, version, version+"-save", version+"-restore")
	}
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	for _, file := range extensions {
		l.File(file, file)
	}
	l.Program("/usr/local/bin/kube-proxy", filepath.Join(from.Bin, "kube-proxy"))
	if err == nil {
		err = imagefile.Write(path, runtime.GOARCH, imagefile.Image{Names: []string{KubeProxy}, Layers: []*imagefile.Layer{l}})
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", KubeProxy, err)
	}
	return nil
}
