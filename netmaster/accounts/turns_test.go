package accounts

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// taken are turns, one of which is being served, while those with some ranks wait, in this order.
type taken struct {
	turns
	served  []int // ranks
	refused []int
	working sync.WaitGroup
}

func (q *taken) come(t *testing.T, ranks ...int) {
	for _, rank := range ranks {
		q.working.Go(func() {
			err := q.wait(t.Context(), rank)
			q.mu.Lock()
			if err != nil && fault.Is(err, fault.Unavailable) {
				q.refused = append(q.refused, rank)
			} else {
				q.served = append(q.served, rank)
			}
			q.mu.Unlock()
			if err == nil {
				q.done()
			}
		})
		synctest.Wait() // it has its place
	}
}

func TestTheLowestRankIsNext(t *testing.T) {
	for name, c := range map[string]struct{ come, served, refused []int }{
		"in the order they came":              {[]int{1, 1, 1}, []int{1, 1, 1}, nil},
		"the lower one first":                 {[]int{7, 3, 5}, []int{3, 5, 7}, nil},
		"no place for one more":               {[]int{2, 2, 2, 2}, []int{2, 2, 2}, []int{2}},
		"a place for who has done less":       {[]int{9, 2, 8, 1}, []int{1, 2, 8}, []int{9}},
		"of the highest the last one goes":    {[]int{4, 4, 4, 0}, []int{0, 4, 4}, []int{4}},
		"nobody goes for who has done more":   {[]int{4, 4, 4, 5}, []int{4, 4, 4}, []int{5}},
		"all places of those who did so much": {[]int{9, 9, 9, 1, 1, 1}, []int{1, 1, 1}, []int{9, 9, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &taken{turns: turns{atOnce: 1, most: 3, patience: time.Hour}}
				if err := q.wait(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				q.come(t, c.come...)
				q.done()
				q.working.Wait()
				if !slices.Equal(q.served, c.served) || !slices.Equal(q.refused, c.refused) || q.present() != 0 {
					t.Errorf("served %v, want %v; refused %v, want %v; %d left", q.served, c.served, q.refused, c.refused, q.present())
				}
			})
		})
	}
}

func TestWhoLeavesTakesNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &taken{turns: turns{atOnce: 1, most: 3, patience: time.Hour}}
		if err := q.wait(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- q.wait(ctx, 1) }()
		synctest.Wait()
		q.come(t, 2)
		leave()
		if err := <-left; !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
		q.done()
		q.working.Wait()
		if !slices.Equal(q.served, []int{2}) || q.present() != 0 {
			t.Errorf("served %v, %d left", q.served, q.present())
		}
	})
}

func TestNobodyWaitsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &taken{turns: turns{atOnce: 1, most: 3, patience: 10 * time.Second}}
		if err := q.wait(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		q.come(t, 7)
		q.working.Wait()
		if waited := time.Since(began); waited != 10*time.Second || !slices.Equal(q.refused, []int{7}) || q.present() != 1 {
			t.Errorf("refused %v after %s, want the one after 10s; %d left, want who works", q.refused, waited, q.present())
		}
	})
}

// Turns that arrive while another is leaving are not lost.
func TestNoTurnIsLost(t *testing.T) {
	q := &turns{atOnce: 2, most: 4, patience: time.Hour}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if i%3 == 0 {
				go leave()
			}
			if q.wait(ctx, i%5) == nil {
				q.done()
			}
		})
	}
	all.Wait()
	if q.present() != 0 {
		t.Errorf("%d left", q.present())
	}
}

// present is how many work and wait.
func (t *turns) present() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.working + len(t.waiting)
}
