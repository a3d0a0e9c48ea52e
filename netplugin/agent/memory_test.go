package agent

import (
	"fmt"
	"runtime"
	"testing"
)

func TestEndpointsOfTenantsThatAreNotHereTakeLittleMemory(t *testing.T) {
	const n, most = 20_000, 900 // bytes for each, keys and indexes included
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	c := newCache(me, quiet)
	c.apply(vrfKey("red"), []byte(`{"vrf":1}`), 1)
	c.apply(netKey("web.red"), []byte(netValue("red", "")), 1)
	p := newPlanner()
	for i := range n {
		value := fmt.Sprintf(`{"id":"web.red-%064d","netID":"web.red","endpointID":"%064d","serviceName":"front","endpointGroupId":7,
			"endpointGroupKey":"front:red","ipAddress":"10.%d.%d.%d","macAddress":"02:02:0a:00:00:01","homingHost":"node%d",
			"labels":{"app":"web","tier":"front"},"containerId":"%064d","epCommonName":"web-%d"}`, i, i, i>>16, i>>8&255, i&255, i%100, i, i)
		c.apply(epKey(fmt.Sprintf("web.red-%064d", i)), []byte(value), 1)
	}
	p.plan(c, everything)
	if each := (heap() - before) / n; each > most {
		t.Errorf("%d bytes for each of %d endpoints, want at most %d", each, n, most)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(p)
}
