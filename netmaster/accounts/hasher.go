package accounts

import (
	"cmp"
	"context"
	"runtime"
	"time"
)

// Limits of concurrent and waiting hashes, and of the wait: clients wait 30 s for a response
// (contivmodel/client.DefaultTimeout). An attempt without a place in the queue, or after that wait, is refused
// with "try later": memory and time of logins are limited. Half of the processors remain free for requests.
const (
	hashesAtOnce  = 2
	hashesWaiting = 16
	longestWait   = 10 * time.Second
)

// Hasher computes and compares hashes of passwords, a few at a time.
type Hasher struct {
	cost  Cost
	do    func(task) result
	turns turns
	decoy string // hash that the passwords of unknown users are compared with
}

// NewHasher returns a hasher with a cost, which uses workers or, if they are nil, this process.
func NewHasher(cost Cost, workers *Workers) *Hasher {
	return &Hasher{
		cost: cost, do: workers.do, decoy: cost.stored(make([]byte, saltSize), make([]byte, digestSize)),
		turns: turns{atOnce: max(1, min(hashesAtOnce, runtime.GOMAXPROCS(0)/2)), most: hashesWaiting, patience: longestWait},
	}
}

// Hash returns the stored form of a password, for an attempt with a rank (Guesses.Rank). The error is Unavailable
// if too many wait, or when ctx ends.
func (h *Hasher) Hash(ctx context.Context, password string, rank int) (hash string, err error) {
	done, err := h.work(ctx, rank, h.do, task{Password: password, Cost: h.cost})
	return done.Hash, err
}

// Verdict is the result of a comparison.
type Verdict struct {
	Right bool
	Renew bool // it is right, but its hash does not have the present form and cost
}

// Verify compares a password with a stored hash, for an attempt with a rank (Guesses.Rank). The empty hash, of an
// unknown user, costs the same and is never right. Errors are those of Hash.
func (h *Hasher) Verify(ctx context.Context, hash, password string, rank int) (v Verdict, err error) {
	against, err := parse(cmp.Or(hash, h.decoy))
	if err != nil {
		return v, err
	}
	do := h.do
	if against.bcrypt != nil || against.cost != h.cost { // it may exceed the time limit of workers, and is renewed when it is right
		do = task.do
	}
	done, err := h.work(ctx, rank, do, task{Password: password, Against: cmp.Or(hash, h.decoy)})
	v.Right = done.Right && hash != ""
	v.Renew = v.Right && (against.bcrypt != nil || against.cost != h.cost)
	return v, err
}

// work computes one hash when its turn has come.
func (h *Hasher) work(ctx context.Context, rank int, do func(task) result, t task) (result, error) {
	if err := h.turns.wait(ctx, rank); err != nil {
		return result{}, err
	}
	defer h.turns.done()
	return do(t), nil
}
