package daemon

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
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
	ctx, giveUp := context.WithCancel(r.Context())
	var decided atomic.Bool
	ended := make(chan struct{})
	go func() {
		look := time.NewTicker(holderAge)
		defer look.Stop()
		last := time.Now() // when it led
		for {
			select {
			case <-ended:
				return // ctx goes on with the answer, and ends with that of r
			case <-ctx.Done():
				giveUp()
				return
			case <-look.C:
			}
			now, err := p.leader.address(ctx)
			switch {
			case err != nil || now == leader:
				last = time.Now()
			case time.Since(last) >= replacedFor:
				if decided.CompareAndSwap(false, true) {
					giveUp()
				}
				return
			}
		}
	}()
	return r.WithContext(ctx), func() error {
		close(ended)
		if !decided.CompareAndSwap(false, true) {
			return errReplaced
		}
		return nil
	}
}
