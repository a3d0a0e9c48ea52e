package gate

import (
	"testing"
	"testing/synctest"
	"time"
)

// A node that reads everything many times at once has another one wait for one of its reads.
func TestNodesReadInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{scans: make(chan struct{}, 1)}
		limits := Limits{}.withDefaults()
		var order []string
		read := func(who string, b *budget) {
			done, err := g.scan(t.Context(), b)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, who) // by one at a time
			done()
		}
		g.scans <- struct{}{} // somebody reads
		greedy := newBudget(limits)
		for range 20 {
			go read("greedy", greedy)
		}
		synctest.Wait()
		go read("modest", newBudget(limits))
		synctest.Wait()
		<-g.scans
		synctest.Wait()
		if len(order) != 21 || order[0] != "modest" && order[1] != "modest" {
			t.Errorf("%d reads, in the order %v", len(order), order)
		}
	})
}

// A node reads the whole state a few times at once, and from then on as often as somebody has to who connects again and again,
// however large it is.
func TestANodeReadsTheWholeStateSoOftenOnly(t *testing.T) {
	for _, keys := range []int{smallState, 300_000} {
		synctest.Test(t, func(t *testing.T) {
			b, began := newBudget(Limits{}.withDefaults()), time.Now()
			read := func() {
				for at := 0; at < keys; at += pageSize {
					if err := b.scan(t.Context()); err != nil {
						t.Fatal(err)
					}
					b.scanned(pageSize, keys)
				}
			}
			for range 4 {
				read()
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("of %d keys, the first four times took %s", keys, took)
			}
			for range 6 {
				read()
			}
			if took := time.Since(began); took < 45*time.Second || took > 65*time.Second {
				t.Errorf("of %d keys, six more times ended after %s", keys, took)
			}
		})
	}
}
