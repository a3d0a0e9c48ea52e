// Package space keeps the store from filling up, and says so when it does.
//
// etcd's file grows with every write, because it keeps the history of every
// key until that is compacted, and never shrinks by itself: what a compaction
// frees is used again, but counts. When the file reaches the quota, etcd raises
// an alarm and refuses whatever grows: creations, but also the rewriting of a
// record, a lease, an election. Then nobody leads, and nothing can be deleted in
// an orderly way. So it must not come to that:
//
//	80 % of the quota   history is compacted, files with room in them are written anew
//	90 %                the leading netmaster refuses what adds to the store (Admit);
//	                    deletions, leases and elections live on the rest
//	100 %               etcd's alarm; once there is room again it is taken back
//
// Only members that netmasters embed are compacted and written anew. A store
// that was set up otherwise is its operator's; there the package observes and refuses.
package space

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

const (
	tightShare = 0.80 // of the quota taken by a file: room is made
	fullShare  = 0.90 // of the quota taken by data: nothing is added any more
	lastShare  = 0.97 // of the quota taken by a file: the same, because then no page is free for sure
	wasteShare = 0.10 // of the quota unused in a file: it is worth writing it anew
	freshShare = 0.02 // of the quota written since an attempt to make room: another one is worth it at once

	lookEvery = 5 * time.Second
	// After an attempt that did not help there is another one, at first soon:
	// what a compaction frees counts as used until no read in progress can see
	// it and something else has been written.
	retryFirst, retryMost = time.Second, time.Minute
)

// Store is what is looked after; objdb.DB is one.
type Store interface {
	Space(ctx context.Context) ([]objdb.Space, error)
	Compact(ctx context.Context) error
	Defragment(ctx context.Context, url string) error
	Disarm(ctx context.Context) error
}

// Config says what to look after.
type Config struct {
	Store Store
	// Member is the client URL of the member that this process embeds. The
	// process whose member leads the store's members makes room for all of
	// them. Empty: this process never does.
	Member string
	Every  time.Duration // between two looks; 0: 5 seconds
	Log    *logrus.Entry
}

// Keeper looks after the space of a store.
type Keeper struct {
	cfg Config

	// After an attempt to make room that did not help; they belong to Run.
	pace *retry.Pacer
	due  time.Time // of the next one
	left int64     // bytes in use after it

	silent bool // a member did not answer when it was asked last; of Run, too

	mu   sync.Mutex
	seen Usage
}

// Usage is how much of the store's quota is taken: the worst of its members, in bytes.
type Usage struct {
	Size  int64 // of the file
	InUse int64 // what of it holds data
	Quota int64 // 0: not known
	Full  bool  // nothing may be added
}

// New makes a keeper; it does nothing before Run.
func New(cfg Config) *Keeper {
	if cfg.Every <= 0 {
		cfg.Every = lookEvery
	}
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "space")
	}
	return &Keeper{cfg: cfg, pace: retry.NewPacer(retryFirst, retryMost)}
}

// Run looks after the store until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	for {
		if err := k.look(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log.WithError(err).Debug("looking at the store's space")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Usage is what was seen last.
func (k *Keeper) Usage() Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// Admit refuses, with kind Exhausted, what would add to a store that is full.
func (k *Keeper) Admit() error {
	u := k.Usage()
	if !u.Full {
		return nil
	}
	const mib = 1 << 20
	return fault.New(fault.Exhausted, "the store is full: %d MiB of %d MiB are in use, its file has %d MiB; nothing can be added, deletions are possible",
		u.InUse/mib, u.Quota/mib, u.Size/mib)
}

// look finds out how full the store is and does something about it.
func (k *Keeper) look(ctx context.Context) error {
	members, err := k.measure(ctx)
	if err != nil {
		return err
	}
	u := k.Usage()
	if !u.tight() {
		k.pace.Reset()
		k.due = time.Time{}
		return nil
	}
	if !k.leads(members) || time.Now().Before(k.due) && !u.exceeds(u.InUse-k.left, freshShare) {
		return nil
	}
	err = k.makeRoom(ctx, members)
	if u = k.Usage(); u.tight() {
		k.due, k.left = time.Now().Add(k.pace.Next()), u.InUse
		if err == nil {
			k.cfg.Log.WithFields(logrus.Fields{"in-use": u.InUse, "quota": u.Quota}).Error("no room could be made in the store: what it holds is live, or being read")
		}
	}
	return err
}

// measure asks the members and remembers the worst of those that answer: the store works without the others.
func (k *Keeper) measure(ctx context.Context) ([]objdb.Space, error) {
	members, err := k.cfg.Store.Space(ctx)
	if len(members) == 0 {
		return nil, err
	}
	if (err != nil) != k.silent {
		k.silent = err != nil
		if k.silent {
			k.cfg.Log.WithError(err).Warn("a member of the store does not tell how full it is: no file is written anew until it does")
		} else {
			k.cfg.Log.Info("all members of the store tell how full they are")
		}
	}
	worst, alarm := Usage{}, false
	for _, m := range members {
		worst.Size, worst.InUse, worst.Quota = max(worst.Size, m.Size), max(worst.InUse, m.InUse), max(worst.Quota, m.Quota)
		alarm = alarm || m.Full
	}
	worst.Full = alarm || worst.exceeds(worst.InUse, fullShare) || worst.exceeds(worst.Size, lastShare)
	k.mu.Lock()
	before := k.seen
	k.seen = worst
	k.mu.Unlock()
	if worst.Full != before.Full {
		log := k.cfg.Log.WithFields(logrus.Fields{"size": worst.Size, "in-use": worst.InUse, "quota": worst.Quota, "alarm": alarm})
		if worst.Full {
			log.Error("the store is full: nothing is added to it until there is room")
		} else {
			log.Info("the store has room again")
		}
	}
	return members, nil
}

// exceeds tells whether bytes are more than a share of the quota.
func (u Usage) exceeds(bytes int64, share float64) bool {
	return u.Quota > 0 && float64(bytes) >= share*float64(u.Quota)
}

func (u Usage) tight() bool { return u.Full || u.exceeds(u.Size, tightShare) }

// leads tells whether this process's member leads the others.
func (k *Keeper) leads(members []objdb.Space) bool {
	for _, m := range members {
		if m.Leads {
			return m.URL == k.cfg.Member
		}
	}
	return false
}

// makeRoom compacts the history and writes anew the files that are worth it,
// one after the other, this process's own last: while a follower is busy with
// that, the others serve.
func (k *Keeper) makeRoom(ctx context.Context, members []objdb.Space) error {
	k.cfg.Log.WithFields(logrus.Fields{"size": k.Usage().Size, "quota": k.Usage().Quota}).
		Warn("the store's file is near its quota: compacting history and writing files anew")
	if err := k.cfg.Store.Compact(ctx); err != nil {
		return err
	}
	for _, own := range []bool{false, true} {
		for _, m := range members {
			if (m.URL == k.cfg.Member) != own {
				continue
			}
			if err := k.rewrite(ctx, m.URL); err != nil {
				return err
			}
		}
	}
	// An alarm that is taken back too early is raised again by the next write.
	if err := k.cfg.Store.Disarm(ctx); err != nil {
		return err
	}
	_, err := k.measure(ctx)
	return err
}

// rewrite writes one member's file anew if enough of it is unused. All members
// must answer at that moment: they have to do without this one.
func (k *Keeper) rewrite(ctx context.Context, url string) error {
	members, err := k.cfg.Store.Space(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.URL != url || float64(m.Size-m.InUse) < wasteShare*float64(m.Quota) {
			continue
		}
		began := time.Now()
		if err := k.cfg.Store.Defragment(ctx, url); err != nil {
			return err
		}
		k.cfg.Log.WithFields(logrus.Fields{"member": m.Member, "size": m.Size, "in-use": m.InUse, "took": time.Since(began).Round(time.Millisecond)}).
			Info("wrote the store's file anew")
	}
	return nil
}
