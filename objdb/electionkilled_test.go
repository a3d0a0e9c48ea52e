package objdb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// soon is the time limit of a takeover while other tests use the processors.
func soon(time.Duration) time.Duration { return time.Minute }

// promised is its time limit with free processors.
func promised(ttl time.Duration) time.Duration { return ttl + time.Second }

func TestASuccessorLeadsAfterTheHolderWasKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	// The holder must not lose the lock before it is killed.
	holderKilled(t, 12*time.Second, soon)
}

func TestLongASuccessorLeadsWithinTheTTLAfterTheHolderWasKilled(t *testing.T) {
	testkit.TakesLong(t)
	holderKilled(t, 4*time.Second, promised)
}

func holderKilled(t *testing.T, ttl time.Duration, within func(ttl time.Duration) time.Duration) {
	p := testetcd.NewProcess(t)
	holder := testetcd.StartChild(t, "candidate", p.URL, ttl.String())
	holder.Expect(t, "leading")

	db := open(t, Config{Endpoints: []string{p.URL}})
	elected := stands(t, db, "successor", ttl)
	testkit.Eventually(t, time.Minute, "successor queues", func() bool {
		kvs, _, err := db.List(context.Background(), lockRoot+lock+"/")
		return err == nil && len(kvs) == 2
	})
	began := time.Now()
	holder.Kill()
	term := won(t, elected)
	took := time.Since(began)
	t.Logf("takeover after %s", took)
	if took > within(ttl) {
		t.Errorf("took %s with a TTL of %s", took, ttl)
	}
	resign(t, term)
}

func TestASuccessorLeadsWhenTheStoreLosesItsLeaderToo(t *testing.T) {
	t.Parallel() // it mostly waits
	holderAndStoresLeaderKilled(t, soon)
}

func TestLongASuccessorLeadsWithinTheTTLWhenTheStoreLosesItsLeaderToo(t *testing.T) {
	testkit.TakesLong(t)
	holderAndStoresLeaderKilled(t, promised)
}

// Each of three processes is a candidate and a member of the store. The killed one holds the lock, and most often
// leads the store as well.
func holderAndStoresLeaderKilled(t *testing.T, within func(ttl time.Duration) time.Duration) {
	const ttl = 10 * time.Second // the default of netmaster
	urls, peers := [3]string{}, []string{}
	for i := range urls {
		urls[i] = testkit.FreeURL()
		peers = append(peers, fmt.Sprintf("m%d=%s", i, testkit.FreeURL()))
	}
	var children [3]*testetcd.Child
	for i := range children {
		children[i] = testetcd.StartChild(t, "member", urls[i], ttl.String(), fmt.Sprintf("m%d", i), t.TempDir(), strings.Join(peers, ","))
		if i == 1 { // a quorum; the process started first most often leads both
			children[0].Expect(t, "ready")
			children[1].Expect(t, "ready")
		}
	}
	children[2].Expect(t, "ready")

	// The members move the store's leadership to the holder of the lock.
	first := holderOf(t, urls[:])
	children[first].Say("lead store")
	children[first].Expect(t, "leads store")

	rest := []string{urls[(first+1)%3], urls[(first+2)%3]}
	db := open(t, Config{Endpoints: rest, RequestTimeout: time.Second})
	old := fmt.Sprintf("m%d", first)
	began := time.Now()
	children[first].Kill()
	testkit.Eventually(t, within(ttl), "another holder", func() bool {
		holder, err := db.Holder(context.Background(), lock)
		return err == nil && holder != old
	})
	t.Logf("takeover after %s", time.Since(began))
}

func holderOf(t *testing.T, urls []string) int {
	db := open(t, Config{Endpoints: urls, RequestTimeout: time.Second})
	number := -1
	testkit.Eventually(t, time.Minute, "somebody holds the lock", func() bool {
		holder, err := db.Holder(context.Background(), lock)
		if err != nil {
			return false
		}
		_, err = fmt.Sscanf(holder, "m%d", &number)
		return err == nil
	})
	return number
}
