package agent

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func TestABridgedNetworkHasRoomForAsManyAsCanBeFloodedTo(t *testing.T) {
	c := newCache(me, quiet)
	put := func(key, value string) { c.apply(key, []byte(value), 1) }
	put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`)
	put(vrfKey("blue"), `{"vrf":1}`)
	put(netKey("web.blue"), netValue("blue", ""))
	var last string
	for i := range pipeline.MaxMembers + 1 {
		if err := c.roomToFlood("web.blue"); err != nil {
			t.Fatalf("%d endpoints: %v", i, err)
		}
		last = fmt.Sprint("web.blue-", i)
		put(epKey(last), epValue("web.blue", me, fmt.Sprintf("10.1.%d.%d", i>>8, i&255)))
	}
	if err := c.roomToFlood("web.blue"); !fault.Is(err, fault.Exhausted) {
		t.Errorf("one too many: %v", err)
	}
	members := func() int {
		o, err := c.wanted(pipeline.Key{Kind: pipeline.KindFloodSet, ID: "web.blue"})
		if err != nil {
			t.Fatal(err)
		}
		return len(o.(pipeline.FloodSet).Members)
	}
	if n := members(); n != pipeline.MaxMembers {
		t.Errorf("%d are flooded to", n)
	}
	c.apply(epKey(last), nil, 2)
	if err := c.roomToFlood("web.blue"); err != nil || members() != pipeline.MaxMembers {
		t.Errorf("after it has gone: %v, %d are flooded to", err, members())
	}
	put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`)
	put(epKey(last), epValue("web.blue", me, "10.1.9.9"))
	if err := c.roomToFlood("web.blue"); err != nil {
		t.Errorf("a routed network: %v", err)
	}
}
