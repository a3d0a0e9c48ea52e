package objdb

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// Whether the store is reachable is found out once for the whole process, without probes as long as answers
// arrive anyway: the renewals of a registration, every cluster.RegistrationTTL/4, are enough. A store that
// closes connections is noticed at once, one that falls silent after quietFor+probeTimeout: some five seconds.
const (
	quietFor     = 2750 * time.Millisecond // without an answer for so long, the store is probed
	probeTimeout = 2 * time.Second         // without an answer to a probe for so long, it counts as disconnected
	probeEvery   = 1500 * time.Millisecond // interval while it does not answer
)

// watchHealth probes the store when necessary, until ctx ends.
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

// probe asks the store, unless it has answered recently, and returns how long to wait before the next probe.
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
		case <-db.standing.look: // this failure is no reason for another probe at once
		default:
		}
		return probeEvery
	}
	return quietFor
}

// idleTime returns the time for which the store need not be probed.
func (s *standing) idleTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.certain || !s.connected {
		return 0
	}
	return quietFor - s.now().Sub(s.heard)
}

// observe records when the client's connections are lost, until ctx ends. For a client with several endpoints
// that is when none is left: while one stands, the cluster is the same.
func (db *DB) observe(ctx context.Context, client *clientv3.Client) {
	conn := client.ActiveConnection()
	for state := conn.GetState(); conn.WaitForStateChange(ctx, state); state = conn.GetState() {
		if state == connectivity.Ready {
			db.standing.noteDisconnect()
		}
	}
}
