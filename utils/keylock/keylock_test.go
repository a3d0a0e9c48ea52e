package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestOneHolderPerKeyAtATime(t *testing.T) {
	var locks Locks[string]
	counts := map[string]*int{"a": new(int), "b": new(int)}
	var all sync.WaitGroup
	for range 50 {
		for key, count := range counts {
			all.Go(func() {
				unlock, err := locks.Lock(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				defer unlock()
				*count++ // a data race unless the lock holds
			})
		}
	}
	all.Wait()
	if *counts["a"] != 50 || *counts["b"] != 50 || len(locks.held) != 0 {
		t.Errorf("counted %d and %d, %d locks left", *counts["a"], *counts["b"], len(locks.held))
	}
}

func TestWaitingEndsWithTheContextAndOtherKeysAreFree(t *testing.T) {
	var locks Locks[int]
	unlock, err := locks.Lock(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := locks.Lock(ctx, 1); !errors.Is(err, gone) {
		t.Errorf("lock that is held, context over: %v", err)
	}
	other, released := locks.Try(2)
	if other == nil {
		t.Fatal("another key is held up")
	}
	other()
	if mine, busy := locks.Try(1); mine != nil {
		t.Error("taken twice")
	} else {
		released = busy
	}
	unlock()
	<-released
	again, _ := locks.Try(1)
	if again == nil {
		t.Fatal("not free after release")
	}
	again()
}
