package accounts

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

// How many hashes are worked on at most, how many wait for that, and for how long: clients wait 30 s for an
// answer (contivmodel/client.DefaultTimeout). Whoever finds no place, or has waited so long, is told to come
// later: memory and time of logins are bounded whatever is tried. Half of the processors are left to requests,
// which would wait behind a tenth of a second of hashing.
const (
	hashesAtOnce  = 2
	hashesWaiting = 16
	longestWait   = 10 * time.Second
	quietHeap     = 256 << 20 // bytes
)

// Hasher makes and compares hashes of passwords, few at a time.
type Hasher struct {
	cost  Cost
	turns turns
	decoy stored // what the passwords of unknown users are compared with
}

// NewHasher makes hashes of a cost.
func NewHasher(cost Cost) *Hasher {
	decoy := stored{cost: cost, salt: make([]byte, saltSize), digest: make([]byte, digestSize)}
	return &Hasher{cost: cost, turns: turns{atOnce: max(1, min(hashesAtOnce, runtime.GOMAXPROCS(0)/2)), most: hashesWaiting, patience: longestWait}, decoy: decoy}
}

// Hash makes the form of a password that is stored, for somebody of a rank (Guesses.Rank). It
// fails as unavailable if too many wait, or when ctx ends.
func (h *Hasher) Hash(ctx context.Context, password string, rank int) (hash string, err error) {
	err = h.work(ctx, rank, func() { hash = h.cost.hash(password) })
	return hash, err
}

// Verdict is what a password was found to be.
type Verdict struct {
	Right bool
	Renew bool // it is right, and its hash is not of the present form and cost
}

// Verify compares a password with a stored hash, for somebody of a rank (Guesses.Rank). An
// empty hash, that of a user who does not exist, costs the same and is never right. It fails
// like Hash.
func (h *Hasher) Verify(ctx context.Context, hash, password string, rank int) (v Verdict, err error) {
	against := h.decoy
	if hash != "" {
		if against, err = parse(hash); err != nil {
			return v, err
		}
	}
	err = h.work(ctx, rank, func() { v.Right = against.matches(password) && hash != "" })
	v.Renew = v.Right && (against.bcrypt != nil || against.cost != h.cost)
	return v, err
}

// work does one hash when it is its turn.
func (h *Hasher) work(ctx context.Context, rank int, hash func()) error {
	if err := h.turns.wait(ctx, rank); err != nil {
		return err
	}
	defer h.turns.done()
	hash()
	collect()
	return nil
}

// collect frees what a hash used before the next one begins: the collector by itself comes when the heap has doubled,
// and by then the memory of several hashes has come and gone. A heap of quietHeap and more it leaves to that, as looking
// at all of it takes longer than a hash does.
func collect() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() < quietHeap {
		runtime.GC()
	}
}
