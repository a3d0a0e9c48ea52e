// Package space keeps the store from filling up, and reports it if it does.
//
// etcd's file grows with every write, because it has the history of every key until that is compacted, and never
// shrinks by itself: room that a compaction releases is reused, but still counts. When the file reaches the quota,
// etcd raises an alarm and refuses everything that grows: creations, but also the rewriting of a record, a lease, an
// election. Then no netmaster can lead, and nothing can be deleted in an orderly way. To prevent that:
//
//	80 % of the quota   history is compacted, files with unused room are defragmented
//	90 %                the leading netmaster refuses additions to the store (Admit);
//	                    deletions, leases and elections use the rest
//	100 %               etcd's alarm; once there is room again it is disarmed
//
// Only members that netmasters embed are compacted and defragmented, each by its own netmaster: others may not
// be able to reach it. A member does not answer while its file is defragmented, so members take turns, and none
// begins while another one is missing. A turn is a key in the store. Where a file has reached the quota,
// writing that key would raise the alarm: there, and after the alarm, all members begin at once.
//
// A store that netmasters do not embed is left to its operator; there the package only observes and refuses.
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
	tightShare = 0.80 // of the quota used by a file: room is made
	fullShare  = 0.90 // of the quota used by data: additions are refused
	lastShare  = 0.97 // of the quota used by a file: the same, because perhaps no page is free
	wasteShare = 0.10 // of the quota unused in a file: rewriting it is worthwhile
	freshShare = 0.02 // of the quota written, or found to be free, since an attempt to make room: another attempt is worthwhile at once

	turnBytes = 64 << 10         // more than taking a turn writes to the store
	turnTime  = 10 * time.Second // time limit for a turn; then the store is checked again, which may be full by now

	lookEvery = 5 * time.Second
	// After an attempt without effect there is another one, at first soon: room that a compaction releases counts as
	// used until no running read can see it and something else has been written. That may be later than any pause.
	retryFirst, retryMost = time.Second, time.Minute
)

// Store is the store to keep; objdb.DB is one.
type Store interface {
	Space(ctx context.Context) ([]objdb.Space, error)
	Compact(ctx context.Context) error
	Defragment(ctx context.Context, url string) error
	Disarm(ctx context.Context) error
}

// Config configures a keeper.
type Config struct {
	Store  Store
	Member Member        // the embedded member; nil: no room is made
	Every  time.Duration // interval of checks; 0: 5 seconds
	Log    *logrus.Entry
}

// Member is the member of the store that this process embeds.
type Member interface {
	// URL returns its present client URL; empty: it has not been started yet.
	URL() string
	// Missing returns the names of the other members that it does not reach.
	Missing(ctx context.Context) ([]string, error)
	// Turn waits for this member's turn to be unavailable, and returns a function that ends it.
	Turn(ctx context.Context) (end func(), err error)
}

// Keeper keeps a store from filling up.
type Keeper struct {
	cfg Config

	// State after an attempt to make room without effect; used by Run only.
	pace *retry.Pacer
	due  time.Time // time of the next one
	left int64     // bytes in use after the attempt

	waits bool // members were missing at the last attempt; used by Run only

	mu   sync.Mutex
	seen Usage
}

// Usage is the used part of the store's quota: that of the fullest member, in bytes.
type Usage struct {
	Size  int64 // of the file
	InUse int64 // the part with data
	Quota int64 // 0: not known
	Full  bool  // additions are refused
}

// New returns a keeper, which does nothing before Run.
func New(cfg Config) *Keeper {
	if cfg.Every <= 0 {
		cfg.Every = lookEvery
	}
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "space")
	}
	return &Keeper{cfg: cfg, pace: retry.NewPacer(retryFirst, retryMost)}
}

// Run keeps the store until ctx ends.
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

// Usage returns the result of the last check.
func (k *Keeper) Usage() Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// Admit refuses, with kind Exhausted, additions to a full store.
func (k *Keeper) Admit() error {
	u := k.Usage()
	if !u.Full {
		return nil
	}
	const mib = 1 << 20
	if u.Quota == 0 { // etcd before 3.6 does not report it, except by its alarm
		return fault.New(fault.Exhausted, "the store is full: its file has %d MiB, of which %d MiB are in use; nothing can be added, deletions are possible", u.Size/mib, u.InUse/mib)
	}
	return fault.New(fault.Exhausted, "the store is full: %d MiB of %d MiB are in use, its file has %d MiB; nothing can be added, deletions are possible",
		u.InUse/mib, u.Quota/mib, u.Size/mib)
}

// check measures how full the store is, and makes room in its own member if necessary.
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

// measure queries the members, records the fullest of those that answer, because the store works without the others,
// and returns this process's own. That is empty without an embedded member, or while it does not answer.
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

// exceeds reports whether bytes are more than a share of the quota.
func (u Usage) exceeds(bytes int64, share float64) bool {
	return u.Quota > 0 && float64(bytes) >= share*float64(u.Quota)
}

func (u Usage) tight() bool { return u.Full || u.exceeds(u.Size, tightShare) }

// makeRoom compacts the history, then rewrites this process's own file if enough of it is unused, and
// returns how full it is after that.
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
	// An alarm that is cleared too early is raised again by the next write.
	if err := k.cfg.Store.Disarm(ctx); err != nil {
		return own, err
	}
	if now, err = k.measure(ctx); err == nil && now.URL != "" {
		own = now
	}
	return own, err
}

// rewrite rewrites the own member's file when it is its turn, if that is possible, and all others are present: they
// have to serve without it. While one is missing it does nothing; a member that rewrites its file does not count as
// missing.
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

// turn waits for this member's turn, and returns a function that ends it.
func (k *Keeper) turn(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	return k.cfg.Member.Turn(ctx)
}
