package daemon

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// replacedFor is for how long another netmaster must lead before the answer of the former leader is given up: one that
// stops in order still answers what it has begun.
const replacedFor = 3 * time.Second

// errReplaced is why the wait for a leader's answer ends before its time.
var errReplaced = errors.New("it was replaced before it answered; what it was asked to change may have happened")

// whileItLeads returns a request that is given up when the leader has been replaced: one that the network has cut off
// answers nothing, and its connections do not end. answered has to be called when the answer begins or fails; it returns
// errReplaced if the request was given up.
func (p *proxy) whileItLeads(r *http.Request, leader string) (during *http.Request, answered func() error) {
	ctx, giveUp := context.WithCancel(r.Context()) // it goes on with the answer, and ends with the context of r
	looking, stop := context.WithCancel(r.Context())
	var replaced bool
	var look sync.WaitGroup
	look.Go(func() {
		if replaced = p.awaitReplaced(looking, leader); replaced {
			giveUp()
		}
	})
	return r.WithContext(ctx), func() error {
		stop()
		look.Wait()
		if replaced {
			return errReplaced
		}
		return nil
	}
}

// awaitReplaced returns true when another netmaster has led for replacedFor, and false when ctx ends first.
func (p *proxy) awaitReplaced(ctx context.Context, leader string) bool {
	again := time.NewTicker(holderAge)
	defer again.Stop()
	last := time.Now() // when it led
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
		}
		now, err := p.leader.address(ctx)
		switch {
		case err != nil || now == leader:
			last = time.Now()
		case time.Since(last) >= replacedFor:
			return true
		}
	}
}
