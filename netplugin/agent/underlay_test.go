package agent

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func TestATunnelLeadsToAddressesOfItsOwnVersionOfIP(t *testing.T) {
	n := newNode(t)
	n.cache.vtep = netip.MustParseAddr("2001:db8::1")
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.1"))
	for host, vtep := range map[string]string{"six": "2001:db8::6", "four": "192.0.2.4"} {
		n.put(epKey("web.blue-"+host), epValue("web.blue", host, "10.1.0."+map[string]string{"six": "6", "four": "4"}[host])).
			put(peerPrefix+host, `{"Hostname":"`+host+`","HostAddr":"`+vtep+`"}`)
	}
	reached, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindEndpoint, ID: "web.blue-six"})
	if err != nil || reached.(pipeline.Endpoint).VTEP != netip.MustParseAddr("2001:db8::6") {
		t.Errorf("%+v, %v", reached, err)
	}
	_, err = n.cache.wanted(pipeline.Key{Kind: pipeline.KindEndpoint, ID: "web.blue-four"})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), `host "four" has tunnel address 192.0.2.4, which 2001:db8::1, of the other version of IP, cannot reach`) {
		t.Error(err)
	}
	flooded, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindFloodSet, ID: "web.blue"})
	if err != nil || len(flooded.(pipeline.FloodSet).VTEPs) != 1 {
		t.Errorf("%+v, %v", flooded, err)
	}
}
