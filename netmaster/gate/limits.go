package gate

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/ratelimit"
)

// Limits are what one node may have at one netmaster; 0 means the default.
type Limits struct {
	Connections int        // the oldest is closed for one more
	Streams     uint32     // at once on a connection
	Watches     int        // at once
	Leases      int        // in the whole cluster
	Rate        rate.Limit // requests and messages of streams, per second
	Burst       int
	Bytes       rate.Limit // that it writes, per second
}

// What a node may have, where Limits says nothing else.
const (
	nodeConnections = 4
	nodeStreams     = 32
	nodeWatches     = 16
	nodeLeases      = 4
	nodeRate        = 50
	nodeBurst       = 200
	nodeBytes       = 128 << 10
)

// How often a node reads the whole state, registrations included, in thousandths of it: four times at once, and then
// once in ten seconds. It does so when it connects, and when it serves another tenant; each time all records are looked
// at, also those that it does not see.
const (
	stateRead       = 1000
	stateReadRate   = stateRead / 10
	stateReadAtOnce = 4 * stateRead
	smallState      = 10 * pageSize // keys; of a smaller one as much is read as of this
)

func (l Limits) withDefaults() Limits {
	set(&l.Connections, nodeConnections)
	set(&l.Streams, nodeStreams)
	set(&l.Watches, nodeWatches)
	set(&l.Leases, nodeLeases)
	set(&l.Rate, nodeRate)
	set(&l.Burst, nodeBurst)
	set(&l.Bytes, nodeBytes)
	return l
}

func set[T int | uint32 | rate.Limit](value *T, standard T) {
	if *value <= 0 {
		*value = standard
	}
}

// What holds for all nodes together, and for each message.
const (
	maxRequest         = 1 << 20 // bytes
	maxHeader          = 8 << 10 // bytes
	bufferSize         = 4 << 10 // bytes that are written together
	waitingConnections = 256     // handed over and not looked at yet
	scansAtOnce        = 4       // reads of more than a key, of four nodes
	pageSize           = 1000    // keys of an answer of etcd, and of the gate
	eventsAtOnce       = 1000    // of one message, if one revision has not more
	minTTL, maxTTL     = 5, 60   // seconds, of leases
	maxEntries         = 8       // registrations of a node
	maxOps             = 128     // of a transaction, and conditions; agents have 50
	burstBytes         = 2 << 20 // that a node writes at once
	greetTime          = 5 * time.Second
	stepTime           = 5 * time.Second  // for the index to be as new as an answer
	sendTime           = 10 * time.Second // for a node to take a message
	patience           = 2 * time.Second  // of a request that exceeds the rate
	pingsApart         = 5 * time.Second
	pingAfter          = 30 * time.Second
	pingTimeout        = 10 * time.Second
	warnEvery          = 10 * time.Second // of refusals of one node, in the log
)

// What a record of a node may have, in bytes.
const (
	maxReport   = 8 << 10   // of an endpoint: a dozen names and addresses
	maxEntry    = 32 << 10  // a registration, with all addresses of the machine
	maxEnforced = 128 << 10 // 50 reasons why a policy is not enforced
	maxSummary  = 512 << 10 // some hundred bytes for each endpoint of the node
)

// budget is what a node has left.
type budget struct {
	limits Limits
	rate   *rate.Limiter // requests
	bytes  *rate.Limiter // written
	state  *rate.Limiter // thousandths of the state, read

	granting chan struct{} // held by who counts leases and adds one
	scanning chan struct{} // held by who reads many keys

	mu      sync.Mutex
	watches int
	warned  time.Time
	refused ratelimit.Told
}

func newBudget(l Limits) *budget {
	return &budget{limits: l, rate: rate.NewLimiter(l.Rate, l.Burst), bytes: rate.NewLimiter(l.Bytes, burstBytes), state: rate.NewLimiter(stateReadRate, stateReadAtOnce),
		granting: make(chan struct{}, 1), scanning: make(chan struct{}, 1)}
}

// spend waits a moment if the node asks too much, and refuses if it asks far too much.
func (b *budget) spend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.rate.Wait(ctx); err != nil {
		return exhausted("more than %v requests a second", float64(b.limits.Rate))
	}
	return nil
}

// scan waits until what the node has read of the state is not too much any more, and refuses if that is later than ctx ends.
func (b *budget) scan(ctx context.Context) error {
	if err := b.state.WaitN(ctx, 0); err != nil { // there is no debt any more
		return exhausted("more than the whole state every %v seconds", stateRead/stateReadRate)
	}
	return nil
}

// chargeScan charges the budget for keys that were read, out of so many: later reads wait if that exceeds the limit.
func (b *budget) chargeScan(keys, of int) {
	b.state.ReserveN(time.Now(), min(stateRead*keys/max(of, smallState), stateReadAtOnce))
}

// write does the same for bytes that are to be written, of one request.
func (b *budget) write(ctx context.Context, bytes int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.bytes.WaitN(ctx, bytes); err != nil {
		return exhausted("more than %v bytes a second", float64(b.limits.Bytes))
	}
	return nil
}

// watch takes one of the watches.
func (b *budget) watch() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches >= b.limits.Watches {
		return false
	}
	b.watches++
	return true
}

// unwatch gives some back.
func (b *budget) unwatch(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watches -= n
}

// shouldAudit tells whether a refusal gets a line in the audit log, and how many since the last one did not: thousands of one node
// would push the lines about changes out of the files.
func (b *budget) shouldAudit(now time.Time) (left int64, worth bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused.Tell(ratelimit.Refusal, now)
}

// shouldLog tells whether a refusal gets a line in the daemon's log, too.
func (b *budget) shouldLog(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.warned) < warnEvery {
		return false
	}
	b.warned = now
	return true
}
