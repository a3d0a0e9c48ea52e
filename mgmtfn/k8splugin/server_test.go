package k8splugin_test

import (
	"errors"
	"os"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		os.Exit(serveUntilKilled(dir))
	}
	os.Exit(fakenode.Isolate(m))
}

const conf = `{"cniVersion": "1.1.0", "name": "contiv-net", "type": "contivk8s"}`

// request is a command about interface eth0 of a container.
func request(command, container, netns, args string) cniwire.Request {
	return cniwire.Request{
		Command: command, ContainerID: container, Netns: netns, IfName: "eth0",
		Args: args, Path: "/opt/cni/bin", Stdin: []byte(conf),
	}
}

// do carries out a command that must succeed.
func do(t testing.TB, node *fakenode.Node, r cniwire.Request) []byte {
	t.Helper()
	answer, err := node.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Command, r.Attachment(), err)
	}
	return answer
}

// refused carries out a command that must fail with a CNI error code.
func refused(t testing.TB, node *fakenode.Node, r cniwire.Request, code uint) *types.Error {
	t.Helper()
	answer, err := node.Do(r)
	var e *types.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s %s: answer %q, error %v; want CNI error %d", r.Command, r.Attachment(), answer, err, code)
	}
	if e.Code != code {
		t.Errorf("%s %s: CNI error %d %q, want %d", r.Command, r.Attachment(), e.Code, e.Msg, code)
	}
	return e
}

// addressOf returns the first address of a result.
func addressOf(t testing.TB, result []byte) string {
	t.Helper()
	parsed, err := types100.NewResult(result)
	if err != nil {
		t.Fatalf("result %s: %v", result, err)
	}
	current, err := types100.GetResult(parsed)
	if err != nil || len(current.IPs) == 0 {
		t.Fatalf("result %s: no address (%v)", result, err)
	}
	return current.IPs[0].Address.IP.String()
}
