package k8splugin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

// Without a word about it the kernel has no IPv6 there.
func TestAnInterfaceTooSmallForIPv6IsRefusedWithTheReason(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	for network, refusal := range map[string]bool{"default-net": true, "six": true, "web": false} {
		tenant := map[bool]string{true: "default", false: "blue"}[refusal]
		add := request(cniwire.Add, network, fakenode.NewNamespace(t), "IO_CONTIV_TENANT="+tenant+";IO_CONTIV_NETWORK="+network)
		add.Stdin = json.RawMessage(`{"cniVersion": "1.1.0", "name": "contiv-net", "mtu": 1279}`)
		if !refusal {
			do(t, node, add)
		} else if e := refused(t, node, add, 7); !strings.Contains(e.Msg, "MTU of 1279, and IPv6 needs 1280") {
			t.Errorf("%s: %s", network, e.Msg)
		}
	}
	do(t, node, request(cniwire.Del, "web", "", ""))
	node.NothingLeft(t)
}
