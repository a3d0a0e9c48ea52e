package agent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// crowd returns a bridged network with n endpoints on this node.
func crowd(n int) (c *cache, ids []string) {
	c = newCache(me, quiet)
	for i, pair := range [][2]string{
		{mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`}, {vrfKey("blue"), `{"vrf":1}`}, {netKey("web.blue"), netValue("blue", "")},
	} {
		c.apply(pair[0], []byte(pair[1]), int64(i+1))
	}
	for i := range n {
		ids = append(ids, fmt.Sprint("web.blue-", i))
		c.apply(epKey(ids[i]), []byte(epValue("web.blue", me, fmt.Sprintf("10.1.%d.%d", i>>8, i&255))), int64(10+i))
	}
	return c, ids
}

// refused returns those of the first and the last endpoints to which the switch cannot flood.
func refused(t *testing.T, c *cache, ids []string) (without []string) {
	t.Helper()
	o, err := c.wanted(pipeline.Key{Kind: pipeline.KindFloodSet, ID: "web.blue"})
	if c.mode.Bridged() && err != nil {
		t.Fatal(err)
	}
	s, _ := o.(pipeline.FloodSet)
	if c.mode.Bridged() && len(s.Members) != pipeline.MaxMembers {
		t.Errorf("%d are flooded to", len(s.Members))
	}
	for _, id := range slices.Concat(ids[:9], ids[len(ids)-9:]) {
		err := c.roomToFlood(id)
		if err != nil && !fault.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
		if err != nil {
			without = append(without, id)
		}
		if c.mode.Bridged() && slices.Contains(s.Members, c.endpoints[id].part.MAC) != (err == nil) {
			t.Errorf("%s is refused or flooded to, both or none: %v", id, err)
		}
	}
	return without
}

func TestOnlyTheEndpointBeyondWhatCanBeFloodedToIsRefused(t *testing.T) {
	c, ids := crowd(pipeline.MaxMembers + 1)
	last := ids[pipeline.MaxMembers]
	if got := refused(t, c, ids); !slices.Equal(got, []string{last}) {
		t.Errorf("refused: %v", got)
	}
	// A later change of an older endpoint's record does not make the endpoint younger.
	c.apply(epKey(ids[7]), []byte(epValue("web.blue", me, "10.1.0.7")), 99_999)
	if got := refused(t, c, ids); !slices.Equal(got, []string{last}) {
		t.Errorf("an older one has changed; refused: %v", got)
	}
	c.apply(epKey(ids[3]), nil, 100_000)
	if got := refused(t, c, slices.Delete(slices.Clone(ids), 3, 4)); got != nil {
		t.Errorf("an older one has gone; refused: %v", got)
	}
}

func TestWhoWasAttachedBeforeARestartIsFloodedToFirst(t *testing.T) {
	c, ids := crowd(pipeline.MaxMembers + 1)
	last := ids[pipeline.MaxMembers]
	for _, id := range ids[1:] {
		c.markAttachedBefore(id)
	}
	if got := refused(t, c, ids); !slices.Equal(got, ids[:1]) {
		t.Errorf("%s was attached before; refused: %v", last, got)
	}
}

func TestARoutedNetworkHasRoomForAll(t *testing.T) {
	c, ids := crowd(pipeline.MaxMembers + 1)
	c.apply(mastercfg.GlobalConfigKey, []byte(`{"fwd-mode":"routing"}`), 100_000)
	if got := refused(t, c, ids); got != nil {
		t.Errorf("refused: %v", got)
	}
}
