// Package space keeps the store from filling up, and says so when it does.
//
// etcd's file grows with every write, because it keeps the history of every
// key until that is compacted, and never shrinks by itself: what a compaction
// frees is used again, but counts. When the file reaches the quota, etcd raises
// an alarm and refuses whatever grows: creations, but also the rewriting of a
// record, a lease, an election. Then nobody leads, and nothing can be deleted in
// an orderly way. So it must not come to that:
//
//	80 % of the quota   history is compacted, files with room in them are defragmented
//	90 %                the leading netmaster refuses what adds to the store (Admit);
//	                    deletions, leases and elections live on the rest
//	100 %               etcd's alarm; once there is room again it is disarmed
//
// Only members that netmasters embed are compacted and defragmented, each by its own
// netmaster: nobody else may be able to reach it. A member does not answer while its file is
// defragmented, so members take turns, and none begins while another one is missing. A turn is a
// key in the store. Where a file has reached the quota, writing that key would raise the alarm: there, and
// after the alarm, all members begin at once.
//
// A store that netmasters do not embed is left to its operator; there the package observes and refuses.
package space

import (
	"context"
	"strings"
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
	freshShare = 0.02 // of the quota written, or found to be free, since an attempt to make room: another one is worth it at once

	turnBytes = 64 << 10         // more than what is written to the store to take a turn
	turnTime  = 10 * time.Second // for which a turn is waited for; then the store is looked at again, which may be full by now

	lookEvery = 5 * time.Second
	// After an attempt that did not help there is another one, at first soon:
	// what a compaction frees counts as used until no read in progress can see
	// it and something else has been written. That may be later than any pause.
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
	Store  Store
	Member Member        // that this process embeds; nil: it makes no room
	Every  time.Duration // between two looks; 0: 5 seconds
	Log    *logrus.Entry
}

// Member is the member of the store that this process embeds.
type Member interface {
	// URL is where it listens for clients now; empty: it has not been started yet.
	URL() string
	// Missing are the names of the other members that it does not reach.
	Missing(ctx context.Context) ([]string, error)
	// Turn waits until it is this member's turn to be away, and returns what ends it.
	Turn(ctx context.Context) (end func(), err error)
}

// Keeper looks after the space of a store.
type Keeper struct {
	cfg Config

	// After an attempt to make room that did not help; they belong to Run.
	pace *retry.Pacer
	due  time.Time // of the next one
	left int64     // bytes in use after it

	waits bool // for members that were missing at the last attempt; of Run, too

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
		if err := k.check(ctx); err != nil && ctx.Err() == nil {
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
	if u.Quota == 0 { // an etcd before 3.6 does not tell, but for its alarm
		return fault.New(fault.Exhausted, "the store is full: its file has %d MiB, of which %d MiB are in use; nothing can be added, deletions are possible", u.Size/mib, u.InUse/mib)
	}
	return fault.New(fault.Exhausted, "the store is full: %d MiB of %d MiB are in use, its file has %d MiB; nothing can be added, deletions are possible",
		u.InUse/mib, u.Quota/mib, u.Size/mib)
}

// check finds out how full the store is, and makes room in its own member if necessary.
func (k *Keeper) check(ctx context.Context) error {
	own, err := k.measure(ctx)
	if err != nil {
		return err
	}
	if u := usage(own); !u.tight() {
		k.pace.Reset()
		k.due, k.waits = time.Time{}, false
		return nil
	} else if time.Now().Before(k.due) && !u.exceeds(max(u.InUse-k.left, k.left-u.InUse), freshShare) {
		return nil
	}
	own, err = k.makeRoom(ctx, own)
	if u := usage(own); u.tight() {
		k.due, k.left = time.Now().Add(k.pace.Next()), u.InUse
		if err == nil && !k.waits {
			k.cfg.Log.WithFields(logrus.Fields{"in-use": u.InUse, "quota": u.Quota}).Error("no room could be made in the store: what it holds is live, or being read")
		}
	}
	return err
}

// measure asks the members, remembers the worst of those that answer, as the store works without the
// others, and returns this process's own. Without one, and while that does not answer, it is empty.
func (k *Keeper) measure(ctx context.Context) (own objdb.Space, err error) {
	members, err := k.cfg.Store.Space(ctx)
	if len(members) == 0 {
		return own, err
	}
	if err != nil {
		k.cfg.Log.WithError(err).Debug("a member of the store does not tell how full it is")
	}
	worst := Usage{}
	for _, m := range members {
		if k.cfg.Member != nil && m.URL == k.cfg.Member.URL() {
			own = m
		}
		u := usage(m)
		worst.Size, worst.InUse, worst.Quota = max(worst.Size, u.Size), max(worst.InUse, u.InUse), max(worst.Quota, u.Quota)
		worst.Full = worst.Full || u.Full
	}
	alarm := worst.Full
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
	return own, nil
}

func usage(m objdb.Space) Usage {
	return Usage{Size: m.Size, InUse: m.InUse, Quota: m.Quota, Full: m.Full}
}

// exceeds tells whether bytes are more than a share of the quota.
func (u Usage) exceeds(bytes int64, share float64) bool {
	return u.Quota > 0 && float64(bytes) >= share*float64(u.Quota)
}

func (u Usage) tight() bool { return u.Full || u.exceeds(u.Size, tightShare) }

// makeRoom compacts the history, writes this process's own file anew if enough of it is unused then,
// and returns how full it is after that.
func (k *Keeper) makeRoom(ctx context.Context, own objdb.Space) (objdb.Space, error) {
	k.cfg.Log.WithFields(logrus.Fields{"size": own.Size, "quota": own.Quota}).
		Warn("the store's file is near its quota: compacting history and writing the file anew")
	if err := k.cfg.Store.Compact(ctx); err != nil {
		return own, err
	}
	now, err := k.measure(ctx)
	if err != nil || now.URL == "" {
		return own, err
	}
	if own = now; float64(own.Size-own.InUse) >= wasteShare*float64(own.Quota) {
		if err := k.rewrite(ctx, own); err != nil || k.waits {
			return own, err
		}
	}
	// An alarm that is taken back too early is raised again by the next write.
	if err := k.cfg.Store.Disarm(ctx); err != nil {
		return own, err
	}
	if now, err = k.measure(ctx); err == nil && now.URL != "" {
		own = now
	}
	return own, err
}

// rewrite writes the own member's file anew when it is its turn, if there can be one, and all others are there:
// they have to do without it. While one is missing it does nothing; one that is writing its own file is not.
func (k *Keeper) rewrite(ctx context.Context, own objdb.Space) error {
	if !own.Full && own.Size+turnBytes < own.Quota {
		end, err := k.turn(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	missing, err := k.cfg.Member.Missing(ctx)
	if err != nil {
		return err
	}
	if waits := len(missing) > 0; waits {
		if !k.waits {
			k.cfg.Log.WithField("missing", strings.Join(missing, ", ")).Warn("members of the store are missing: no file is written anew until they are back, or removed from it")
		}
		k.waits = true
		return nil
	}
	k.waits = false
	began := time.Now()
	if err := k.cfg.Store.Defragment(ctx, own.URL); err != nil {
		return err
	}
	k.cfg.Log.WithFields(logrus.Fields{"member": own.Member, "size": own.Size, "in-use": own.InUse, "took": time.Since(began).Round(time.Millisecond)}).
		Info("wrote the store's file anew")
	return nil
}

// turn waits for this member's turn, and returns what ends it.
func (k *Keeper) turn(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	return k.cfg.Member.Turn(ctx)
}
