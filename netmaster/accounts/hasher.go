package accounts

import (
	"cmp"
	"context"
	"runtime"
	"time"
)

// How many hashes are worked on at most, how many wait for that, and for how long: clients wait 30 s for an
// answer (contivmodel/client.DefaultTimeout). Whoever finds no place, or has waited so long, is told to come
// later: memory and time of logins are bounded whatever is tried. Half of the processors are left to requests.
const (
	hashesAtOnce  = 2
	hashesWaiting = 16
	longestWait   = 10 * time.Second
)

// Hasher makes and compares hashes of passwords, few at a time.
type Hasher struct {
	cost  Cost
	do    func(task) result
	turns turns
	decoy string // what the passwords of unknown users are compared with
}

// NewHasher makes hashes of a cost, with workers or, if they are nil, by itself.
func NewHasher(cost Cost, workers *Workers) *Hasher {
	return &Hasher{
		cost: cost, do: workers.do, decoy: cost.stored(make([]byte, saltSize), make([]byte, digestSize)),
		turns: turns{atOnce: max(1, min(hashesAtOnce, runtime.GOMAXPROCS(0)/2)), most: hashesWaiting, patience: longestWait},
	}
}

// Hash makes the form of a password that is stored, for somebody of a rank (Guesses.Rank). It
// fails as unavailable if too many wait, or when ctx ends.
func (h *Hasher) Hash(ctx context.Context, password string, rank int) (hash string, err error) {
	done, err := h.work(ctx, rank, h.do, task{Password: password, Cost: h.cost})
	return done.Hash, err
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
	against, err := parse(cmp.Or(hash, h.decoy))
	if err != nil {
		return v, err
	}
	do := h.do
	if against.bcrypt != nil || against.cost != h.cost { // it may take longer than workers have, and is renewed when it is right
		do = task.do
	}
	done, err := h.work(ctx, rank, do, task{Password: password, Against: cmp.Or(hash, h.decoy)})
	v.Right = done.Right && hash != ""
	v.Renew = v.Right && (against.bcrypt != nil || against.cost != h.cost)
	return v, err
}

// work does one hash when it is its turn.
func (h *Hasher) work(ctx context.Context, rank int, do func(task) result, t task) (result, error) {
	if err := h.turns.wait(ctx, rank); err != nil {
		return result{}, err
	}
	defer h.turns.done()
	return do(t), nil
}
