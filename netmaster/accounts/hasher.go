package accounts

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/contiv/netplugin/utils/fault"
)

// How many hashes are worked on at most, and how many wait for that. Whoever comes then is
// told to come later: memory and time of logins are bounded whatever is tried. Half of the processors are left to
// requests, which would wait behind a tenth of a second of hashing.
const (
	hashesAtOnce  = 2
	hashesWaiting = 16
)

// Hasher makes and compares hashes of passwords, few at a time.
type Hasher struct {
	cost    Cost
	slots   chan struct{}
	present atomic.Int32 // at work and waiting
	decoy   stored       // what the passwords of unknown users are compared with
}

// NewHasher makes hashes of a cost.
func NewHasher(cost Cost) *Hasher {
	decoy := stored{cost: cost, salt: make([]byte, saltSize), digest: make([]byte, digestSize)}
	return &Hasher{cost: cost, slots: make(chan struct{}, max(1, min(hashesAtOnce, runtime.GOMAXPROCS(0)/2))), decoy: decoy}
}

// Hash makes the form of a password that is stored. It fails as unavailable if too
// many wait, or when ctx ends.
func (h *Hasher) Hash(ctx context.Context, password string) (hash string, err error) {
	err = h.work(ctx, func() { hash = h.cost.hash(password) })
	return hash, err
}

// Verdict is what a password was found to be.
type Verdict struct {
	Right bool
	Renew bool // it is right, and its hash is not of the present form and cost
}

// Verify compares a password with a stored hash. An empty hash, that of a user who
// does not exist, costs the same and is never right.
func (h *Hasher) Verify(ctx context.Context, hash, password string) (v Verdict, err error) {
	against := h.decoy
	if hash != "" {
		if against, err = parse(hash); err != nil {
			return v, err
		}
	}
	err = h.work(ctx, func() { v.Right = against.matches(password) && hash != "" })
	v.Renew = v.Right && (against.bcrypt != nil || against.cost != h.cost)
	return v, err
}

// work does one hash when it is its turn.
func (h *Hasher) work(ctx context.Context, hash func()) error {
	defer h.present.Add(-1)
	if int(h.present.Add(1)) > cap(h.slots)+hashesWaiting {
		return fault.New(fault.Unavailable, "too many logins at a time, try again in a moment")
	}
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "login: %w", ctx.Err())
	}
	defer func() { <-h.slots }()
	hash()
	return nil
}
