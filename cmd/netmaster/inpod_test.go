package main

import (
	"cmp"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/podjoin"
	"github.com/contiv/netplugin/test/testkit"
)

// inPod runs a program with the files of a service account from a directory, as a container runtime does.
const inPod = `
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io
ln -s "$1" /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"`

// pod starts a netmaster on a node by the manifests, with a Kubernetes that has no record of a cluster.
func pod(t *testing.T, node string, flags ...string) (p *process, dir string) {
	t.Helper()
	testkit.NeedsMachine(t)
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/configmaps/"+podjoin.ConfigMap) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1"}`) // the client may be gone
	}))
	t.Cleanup(api.Close)
	dir = t.TempDir()
	for name, text := range map[string]string{
		"ca.crt":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})),
		"namespace": "kube-system", "token": "of the API server", "join": "of the cluster",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	https := func() string { return strings.Replace(testkit.FreeURL(), "http:", "https:", 1) }
	p = &process{T: t, addr: testkit.FreeAddress(), store: https()}
	p.cmd = exec.Command("unshare", append([]string{"--mount", "sh", "-ec", inPod, "sh", dir, program,
		"--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing", "--external-address", p.addr, "--internal-address", p.addr,
		"--k8s-api-server", api.URL, "--secure", "--pki-dir", filepath.Join(dir, "pki"), "--join-pod-token-file", filepath.Join(dir, "join"),
		"--socket", filepath.Join(dir, "netmaster.sock"), "--audit-log", filepath.Join(dir, "audit.log"), "--embedded-etcd", filepath.Join(dir, "etcd"),
		"--embedded-etcd-client-url", p.store, "--embedded-etcd-peer-url", https(), "--embedded-etcd-unsafe-no-fsync"}, flags...)...)
	p.cmd.Env = append(os.Environ(), "BE_NETMASTER=1", "NODE_NAME="+node)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of the netmaster on %q:\n%s", node, p.log.String())
		}
	})
	return p, dir
}

// A netmaster in a pod has the name of the pod's node, in Kubernetes as in the cluster: by that name it is
// removed, and has its member of the store. Without the name of the node it has its host's, as everywhere else.
func TestANetmasterInAPodIsNamedByItsNode(t *testing.T) {
	host, err := os.Hostname()
	if err != nil || !identity.ValidName(host) {
		host = "netmaster"
	}
	for node, flags := range map[string][]string{"worker-1.example": {"--embedded-etcd-name=worker-1.example"}, "": nil} {
		p, dir := pod(t, node, flags...)
		leader(t, time.Minute, []*process{p})
		conn, err := tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		shown := conn.ConnectionState().PeerCertificates[0].URIs
		if want := "/master/" + cmp.Or(node, host); len(shown) != 1 || shown[0].Path != want {
			t.Errorf("NODE_NAME=%q: it shows a certificate of %v, want %s", node, shown, want)
		}
		own, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "store.crt"), filepath.Join(dir, "pki", "store.key"))
		if err != nil {
			t.Fatal(err)
		}
		etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{p.store}, DialTimeout: 10 * time.Second,
			TLS: &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer etcd.Close()
		members, err := etcd.MemberList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := cmp.Or(node, "netmaster"); len(members.Members) != 1 || members.Members[0].Name != want {
			t.Errorf("NODE_NAME=%q: the members of the store are %v, want %s", node, members.Members, want)
		}
	}
}

// An impossible name of a node is refused, and not replaced by one that several netmasters would share; so is a
// missing name of the member of the store.
func TestANetmasterInAPodRefusesANodeThatCannotBe(t *testing.T) {
	for node, c := range map[string]struct {
		flags []string
		says  string
	}{
		"a/b":                    {nil, `NODE_NAME "a/b"`},
		strings.Repeat("n", 254): {nil, "NODE_NAME"},
		"":                       {[]string{"--embedded-etcd-name="}, "--embedded-etcd-name"},
	} {
		p, _ := pod(t, node, c.flags...)
		late := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		err := p.cmd.Wait()
		late.Stop()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != 22 || !strings.Contains(p.log.String(), "invalid configuration") || !strings.Contains(p.log.String(), c.says) {
			t.Errorf("NODE_NAME=%.20q: %v: %s", node, err, p.log.String())
		}
	}
}
