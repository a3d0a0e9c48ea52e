package k8splugin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/utils/fault"
)

func dial(t *testing.T, node *fakenode.Node) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", node.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAClientThatMisbehavesCostsTheOthersNothing(t *testing.T) {
	for name, hostile := range map[string]func(t *testing.T, node *fakenode.Node){
		"garbage": func(t *testing.T, node *fakenode.Node) {
			if _, err := dial(t, node).Write(bytes.Repeat([]byte{0xff, '\n'}, 1000)); err != nil {
				t.Log("server hung up:", err)
			}
		},
		"no json": func(t *testing.T, node *fakenode.Node) {
			if _, err := node.Post(cniwire.PathV2, []byte("]")); err == nil || !strings.Contains(err.Error(), "decode") {
				t.Errorf("answer to garbage: %v", err)
			}
		},
		"two documents": func(t *testing.T, node *fakenode.Node) {
			if _, err := node.Post(cniwire.PathV2, []byte(`{} {}`)); err == nil {
				t.Error("two documents were taken for one")
			}
		},
		"wrong types": func(t *testing.T, node *fakenode.Node) {
			if _, err := node.Post(cniwire.PathV2, []byte(`{"command": 7}`)); err == nil {
				t.Error("a command that is a number was accepted")
			}
		},
		"10 MiB": func(t *testing.T, node *fakenode.Node) {
			body := append(append([]byte(`{"args": "`), bytes.Repeat([]byte("a"), 10<<20)...), `"}`...)
			// The server may close the connection before all is sent.
			if _, err := node.Post(cniwire.PathV2, body); err == nil {
				t.Error("a body of 10 MiB was accepted")
			}
		},
		"unknown path": func(t *testing.T, node *fakenode.Node) {
			if _, err := node.Post("/ContivCNI.Reboot", nil); err == nil || !strings.Contains(err.Error(), "404") {
				t.Errorf("unknown path: %v", err)
			}
		},
		"slow": func(t *testing.T, node *fakenode.Node) {
			conn := dial(t, node)
			if _, err := io.WriteString(conn, "POST /cni/v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !bytes.Contains(answer, []byte("400")) {
				t.Errorf("a request that never ends was answered with %q, %v", answer, err)
			}
		},
		"more connections than allowed": func(t *testing.T, node *fakenode.Node) {
			for range 20 {
				dial(t, node) // and send nothing
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := fakenode.NewNode(t)
			node.Start(t, func(c *k8splugin.Config) {
				c.Limits.Request = 2 * time.Second // which other requests have, too
				c.Limits.Connections = 10
			})
			hostile(t, node)
			do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
			do(t, node, request(cniwire.Del, "pod", "", ""))
			node.NothingLeft(t)
		})
	}
}

func TestAnAddWhoseClientGoesAwayIsUndone(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, func(c *k8splugin.Config) { c.Limits.Ready = time.Minute })
	node.Switch.Fail(fakenode.Ready, errors.New("first sync is pending"))
	asked := make(chan struct{}, 1000)
	node.Switch.Watch(func(string) { asked <- struct{}{} })
	body, err := json.Marshal(request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, node)
	if _, err := fmt.Fprintf(conn, "POST /cni/v2 HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	<-asked // it is in progress
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	// Another command about the attachment gets its turn at once.
	do(t, node, request(cniwire.Del, "pod", "", ""))
	node.Switch.Watch(nil)
	node.NothingLeft(t)
}

func TestOnlyRootIsHeard(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	for path, mode := range map[string]os.FileMode{node.Socket(): 0o600, filepath.Dir(node.Socket()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, mode)
		}
	}
	// A client that got past the file modes, by a descriptor passed on, say.
	for dir := filepath.Dir(node.Socket()); dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(node.Socket(), 0o666); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() { // on a thread of its own, which ends with it
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			answered <- errno.Error()
			return
		}
		conn, err := net.Dial("unix", node.Socket())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, "POST /cni/v2 HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
		answer, _ := io.ReadAll(conn)
		answered <- fmt.Sprintf("%s%v", answer, err)
	}()
	if got := <-answered; strings.Contains(got, "HTTP") || strings.Contains(got, "permission") {
		t.Errorf("user nobody got %q, should have been hung up on", got)
	}
	do(t, node, cniwire.Request{Command: cniwire.Status})
}

func TestAStaleSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	second, err := k8splugin.New(node.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a second server on the socket: %v", err)
	}
	do(t, node, cniwire.Request{Command: cniwire.Status})

	other := fakenode.NewNode(t)
	if err := os.MkdirAll(filepath.Dir(other.Socket()), 0o700); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: other.Socket(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	other.Start(t)
	do(t, other, cniwire.Request{Command: cniwire.Status})
}

func TestAServerThatIsToldToStopFinishesWhatItBegan(t *testing.T) {
	node := fakenode.NewNode(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	node.Switch.Watch(func(call string) {
		if call == fakenode.Attach {
			close(begun)
			<-goOn
		}
	})
	stop := node.Start(t)
	netns := fakenode.NewNamespace(t)
	done := make(chan error, 1)
	go func() {
		_, err := node.Do(request(cniwire.Add, "pod", netns, ""))
		done <- err
	}()
	<-begun
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	fakenode.Eventually(t, "the server no longer listens", func() bool {
		conn, err := net.Dial("unix", node.Socket())
		return err != nil || conn.Close() != nil
	})
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("ADD: %v", err)
	}
	<-stopped
}

// legacyAnswer is the part of an answer that a program of the first release reads.
type legacyAnswer struct {
	Result                             uint
	EndpointID, IPAddress, IPv6Address string
	ErrMsg, ErrInfo                    string
}

func TestAProgramOfTheFirstReleaseIsUnderstood(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, func(c *k8splugin.Config) { c.Mode = k8splugin.Kubernetes })
	body := fmt.Appendf(nil, `{"K8S_POD_NAME": "web-0", "K8S_POD_NAMESPACE": "shop", "K8S_POD_INFRA_CONTAINER_ID": "abc",
		"CNI_NETNS": %q, "CNI_IFNAME": "eth0"}`, fakenode.NewNamespace(t))
	post := func(path string) (a legacyAnswer) {
		t.Helper()
		answer, err := node.Post(path, body)
		if err != nil {
			answer = []byte(err.Error()[strings.Index(err.Error(), "{"):])
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			t.Fatalf("answer %q: %v", answer, err)
		}
		return a
	}
	want := legacyAnswer{EndpointID: "abc", IPAddress: "10.1.0.2/16", IPv6Address: "fd01::2/64"}
	for range 2 {
		if got := post(cniwire.PathAddPod); got != want {
			t.Errorf("AddPod answers %+v, want %+v", got, want)
		}
	}
	if got := post(cniwire.PathDelPod); got.Result != 0 || got.ErrMsg != "" {
		t.Errorf("DelPod answers %+v", got)
	}
	node.NothingLeft(t)
	node.Cluster.Fail(fakenode.CreateEndpoint, fault.New(fault.Exhausted, "pool is empty"))
	if got := post(cniwire.PathAddPod); got.Result != 1 || !strings.Contains(got.ErrMsg, "pool is empty") {
		t.Errorf("AddPod that fails answers %+v", got)
	}
}
