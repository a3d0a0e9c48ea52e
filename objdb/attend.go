package objdb

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// Whether the store is there is found out once for the whole process, and
// without asking it as long as it is heard anyway: the renewals of a
// registration, every cluster.RegistrationTTL/4, are enough. A store that ends
// connections is missed at once, one that falls silent after
// quietFor+probeTimeout: some five seconds.
const (
	quietFor     = 2750 * time.Millisecond // not heard of for so long: the store is asked
	probeTimeout = 2 * time.Second         // no answer for so long: not connected
	probeEvery   = 1500 * time.Millisecond // while it does not answer
)

// watchHealth probes the store when there is reason to, until ctx ends.
func (db *DB) watchHealth(ctx context.Context) {
	for wait := time.Duration(0); ctx.Err() == nil; wait = db.probe(ctx) {
		timer := time.NewTimer(wait)
		select {
		case <-db.standing.look:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// probe asks the store, unless it was heard of lately, and returns how long to
// wait for the next time.
func (db *DB) probe(ctx context.Context) time.Duration {
	if left := db.standing.idleTime(); left > 0 {
		return left
	}
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := db.Ping(asking); err != nil {
		if ctx.Err() == nil {
			db.standing.failed(err)
			if db.route != nil {
				db.route.reportFailure(nil)
			}
		}
		select {
		case <-db.standing.look: // this failure is no reason to ask at once
		default:
		}
		return probeEvery
	}
	return quietFor
}

// idleTime is the time for which the store need not be probed.
func (s *standing) idleTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.certain || !s.connected {
		return 0
	}
	return quietFor - s.now().Sub(s.heard)
}

// observe notes when the client's connections are lost, until ctx ends. Of a
// client with several endpoints that is when none is left: while one stands,
// the cluster is the one it was.
func (db *DB) observe(ctx context.Context, client *clientv3.Client) {
	conn := client.ActiveConnection()
	for state := conn.GetState(); conn.WaitForStateChange(ctx, state); state = conn.GetState() {
		if state == connectivity.Ready {
			db.standing.noteDisconnect()
		}
	}
}
