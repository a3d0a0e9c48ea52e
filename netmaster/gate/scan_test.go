package gate

import (
	"testing"
	"testing/synctest"
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
