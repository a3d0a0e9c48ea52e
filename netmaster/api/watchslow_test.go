package api

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// A slow watch costs the leader the events written for it and not read yet, not the feed's past.
func TestLongWatchersThatReadSlowlyDoNotKeepThePastOfAll(t *testing.T) {
	testkit.TakesLong(t) // it writes some hundred MiB
	b := ready(t)
	contracts := make([]string, 40)
	for i := range contracts {
		contracts[i] = fmt.Sprintf("uni/%s%d", strings.Repeat("x", 3000), i)
	}
	body := fmt.Sprintf(`{"tenantName":"blue","contractsGroupName":"c","contractsType":"provided","contracts":["%s"]}`, strings.Join(contracts, `","`))
	turn := func(n int) { // the feed over: 240 kB for each
		for range n {
			b.ok("POST", "extContractsGroups/blue:c", body)
			b.ok("DELETE", "extContractsGroups/blue:c", "")
		}
	}
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc >> 20)
	}
	turn(300)
	before := heap()
	const watchers = 8
	for range watchers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprint(conn, "GET /api/v1/extContractsGroups/?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
		in := bufio.NewReaderSize(conn, 16)
		for line := ""; !strings.Contains(line, "BOOKMARK"); {
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		turn(300)
	}
	after := heap()
	t.Logf("heap: %d MiB, with %d watches that read no more: %d MiB", before, watchers, after)
	if after-before > 8*watchers {
		t.Errorf("%d watches that read slowly keep %d MiB", watchers, after-before)
	}
}
