package gate

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// ranges returns how often the store was asked for keys so far.
func ranges(t *testing.T) (n int) {
	t.Helper()
	resp, err := http.Get(storetest.Endpoint() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^etcd_mvcc_range_total (\S+)$|^etcd_debugging_mvcc_range_total (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the store does not say how often it was asked")
	}
	f, err := strconv.ParseFloat(string(found[1])+string(found[2]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(f)
}

// A node may read the whole state once in ten seconds. Watches from a future revision would have its gate read the
// whole store repeatedly, until the node gives up, without any cost to the node's budget.
func TestANodeThatWatchesWhatIsStillToComeHasNobodyReadTheState(t *testing.T) {
	b := newBed(t)
	const keys = 20000
	for from := 0; from < keys; from += 100 {
		var txn objdb.Txn
		for i := range 100 {
			txn.Puts = append(txn.Puts, objdb.KV{Key: fmt.Sprintf("%sx%06d", mastercfg.EndpointPrefix, from+i), Value: make([]byte, 500)})
		}
		if _, _, err := b.db.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	g := b.open()
	n, honest := b.through(b.join("h1", []string{"192.0.2.1"}), g), b.through(b.join("h2", []string{"192.0.2.2"}), g)
	f := b.follow(honest, mastercfg.GlobalRoot)
	testkit.Eventually(t, time.Minute, "the gate serves", f.Synced)
	event := func() time.Duration { // the time until an honest node receives one
		key, began := mastercfg.GlobalRoot+"x", time.Now()
		b.put(key, began.String())
		testkit.Eventually(t, time.Minute, "it arrives", func() bool { return f.value(key) == strconv.Quote(began.String()) })
		return time.Since(began)
	}
	// watched returns how often the store is read while the honest node receives one event after the other for five
	// seconds, and their longest delay.
	watched := func() (asked int, longest time.Duration) {
		before := ranges(t)
		for began := time.Now(); time.Since(began) < 5*time.Second; {
			longest = max(longest, event())
		}
		return ranges(t) - before, longest
	}
	event()
	quiet, calm := watched()

	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range 30 { // streams
		own := metadata.AppendToOutgoingContext(ctx, "stream", strconv.Itoa(i))
		event() // so that they do not ask at the same moments
		go func() {
			for range client.Watch(own, mastercfg.StateRoot, clientv3.WithPrefix(), clientv3.WithRev(math.MaxInt64-1)) {
			}
		}()
	}
	asked, late := watched()
	t.Logf("in 5 s the store was asked for keys %d times, and before %d times; an event takes %s to another node, and before %s", asked, quiet, late, calm)
	if asked > quiet+10 {
		t.Errorf("a node has had the store asked for all of its %d keys %d times in 5 s", keys, asked-quiet)
	}
}
