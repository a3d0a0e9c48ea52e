package gate

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/ratelimit"
)

// Limits limit one node at one netmaster; 0 means the default.
type Limits struct {
	Connections int        // one more closes the oldest
	Watches     int        // concurrent
	Rate        rate.Limit // requests and messages of streams, per second
	Burst       int
}

// Defaults of Limits.
const (
	nodeConnections = 4
	nodeWatches     = 32 // an agent has six on a connection, and connections of before may not have been seen to end
	nodeRate        = 50
	nodeBurst       = 200
)

// Other limits of a node.
const (
	nodeStreams = 32        // concurrent, per connection
	nodeLeases  = 4         // in the whole cluster
	nodeBytes   = 128 << 10 // written by the node, per second
)

// Limit of reads of the whole state, including registrations, in thousandths of it: four at once, and then one
// in ten seconds. A node reads it when it connects, and when it serves another tenant; each time all records
// are read, including those that the node does not see.
const (
	stateRead       = 1000
	stateReadRate   = stateRead / 10
	stateReadAtOnce = 4 * stateRead
	smallState      = 10 * pageSize // keys; a smaller state counts as one of this size
)

func (l Limits) withDefaults() Limits {
	set(&l.Connections, nodeConnections)
	set(&l.Watches, nodeWatches)
	set(&l.Rate, nodeRate)
	set(&l.Burst, nodeBurst)
	return l
}

func set[T int | rate.Limit](value *T, standard T) {
	if *value <= 0 {
		*value = standard
	}
}

// Limits for all nodes together, and for each message.
const (
	maxRequest         = 1 << 20 // bytes
	maxHeader          = 8 << 10 // bytes
	bufferSize         = 4 << 10 // bytes per write
	waitingConnections = 256     // queued and not served yet
	scansAtOnce        = 4       // reads of more than one key, each for another node
	pageSize           = 1000    // keys in an answer of etcd, and of the gate
	eventsAtOnce       = 1000    // in one message, unless one revision has more
	minTTL, maxTTL     = 5, 60   // seconds, of leases
	maxEntries         = 8       // registrations of a node
	maxOps             = 128     // operations of a transaction, and conditions; agents use 50
	burstBytes         = 2 << 20 // bytes that a node may write at once
	greetTime          = 5 * time.Second
	stepTime           = 5 * time.Second  // until the index is as new as an answer
	sendTime           = 10 * time.Second // until a node has received a message
	patience           = 2 * time.Second  // of a request that exceeds the rate
	pingsApart         = 5 * time.Second
	pingAfter          = 30 * time.Second
	pingTimeout        = 10 * time.Second
	warnEvery          = 10 * time.Second // between warnings about one node in the log
)

// Maximum sizes of records that nodes write, in bytes.
const (
	maxReport   = 8 << 10   // an endpoint: a dozen names and addresses
	maxEntry    = 32 << 10  // a registration, with all addresses of the machine
	maxEnforced = 128 << 10 // 50 reasons why policies are not enforced
	maxSummary  = 512 << 10 // some hundred bytes for each endpoint of the node
)

// budget is what a node has left of its limits.
type budget struct {
	limits Limits
	rate   *rate.Limiter // requests
	bytes  *rate.Limiter // written
	state  *rate.Limiter // thousandths of the state, read

	granting chan struct{} // held while counting leases and granting one
	scanning chan struct{} // held while reading many keys

	mu      sync.Mutex
	watches int
	warned  time.Time
	refused ratelimit.Told
}

func newBudget(l Limits) *budget {
	return &budget{
		limits: l, rate: rate.NewLimiter(l.Rate, l.Burst), bytes: rate.NewLimiter(nodeBytes, burstBytes),
		state: rate.NewLimiter(stateReadRate, stateReadAtOnce), granting: make(chan struct{}, 1), scanning: make(chan struct{}, 1),
	}
}

// spend waits a moment if the node exceeds its rate, and fails if it exceeds it by far.
func (b *budget) spend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.rate.Wait(ctx); err != nil {
		return exhausted("more than %v requests a second", float64(b.limits.Rate))
	}
	return nil
}

// scan waits until the node has not read too much of the state recently; it fails if ctx ends before.
func (b *budget) scan(ctx context.Context) error {
	if err := b.state.WaitN(ctx, 0); err != nil { // waits until there is no debt
		return exhausted("more than the whole state every %v seconds", stateRead/stateReadRate)
	}
	return nil
}

// chargeScan charges the budget for keys that were read, out of so many: later reads wait if that exceeds the limit.
func (b *budget) chargeScan(keys, of int) {
	b.state.ReserveN(time.Now(), min(stateRead*keys/max(of, smallState), stateReadAtOnce))
}

// write is the same for the bytes that one request writes.
func (b *budget) write(ctx context.Context, bytes int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.bytes.WaitN(ctx, bytes); err != nil {
		return exhausted("more than %v bytes a second", float64(nodeBytes))
	}
	return nil
}

// watch counts a watch; false: the node has too many.
func (b *budget) watch() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches >= b.limits.Watches {
		return false
	}
	b.watches++
	return true
}

// unwatch releases n watches.
func (b *budget) unwatch(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watches -= n
}

// shouldAudit reports whether a refusal gets a line in the audit log, and how many did not since the last line:
// thousands of one node would push the lines about changes out of the files.
func (b *budget) shouldAudit(now time.Time) (left int64, worth bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused.Tell(ratelimit.Refusal, now)
}

// shouldLog reports whether a refusal also gets a line in the daemon's log.
func (b *budget) shouldLog(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.warned) < warnEvery {
		return false
	}
	b.warned = now
	return true
}
