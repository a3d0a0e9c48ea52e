package cluster

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/utils/buildinfo"
)

func TestNodeRegistersUnderItsHostLabel(t *testing.T) {
	node := Node{HostLabel: "n1", CtrlIP: netip.MustParseAddr("192.0.2.1"), VTEP: netip.MustParseAddr("198.51.100.1"), VXLANPort: 4789}
	got := make(map[string]string)
	for _, service := range node.Services() {
		value, err := json.Marshal(service)
		if err != nil {
			t.Fatal(err)
		}
		got[service.Key()] = string(value)
	}
	version := buildinfo.Get().Version
	want := map[string]string{
		"/contiv.io/service/netplugin/192.0.2.1:9002":         `{"ServiceName":"netplugin","Role":"","Version":"` + version + `","TTL":10,"HostAddr":"192.0.2.1","Port":9002,"Hostname":"n1","AnyPod":true}`,
		"/contiv.io/service/netplugin/192.0.2.1:9003":         `{"ServiceName":"netplugin","Role":"","Version":"` + version + `","TTL":10,"HostAddr":"192.0.2.1","Port":9003,"Hostname":"n1"}`,
		"/contiv.io/service/netplugin.vtep/198.51.100.1:4789": `{"ServiceName":"netplugin.vtep","Role":"","Version":"` + version + `","TTL":10,"HostAddr":"198.51.100.1","Port":4789,"Hostname":"n1"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	node.RESTPort = 9091
	for _, service := range node.Services()[:2] {
		if service.REST != 9091 {
			t.Errorf("who asks %s does not learn the port", service.Key())
		}
	}
}
