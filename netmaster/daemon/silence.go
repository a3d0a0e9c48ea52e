package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
)

const (
	// silentFor is how long a leader may not have answered this netmaster before that counts as not being ready. It
	// is longer than another one takes to lead in the place of a leader that was killed.
	silentFor = 15 * time.Second
	// askedEvery is how often it is asked, and askTime how long its answer may take.
	askedEvery = 5 * time.Second
	askTime    = 2 * time.Second
)

// silence knows since when the leader does not answer this netmaster, as where the network between the two is broken
// and the leader still reaches the store.
type silence struct {
	limit, every time.Duration
	log          *logrus.Entry

	mu     sync.Mutex
	leader string
	since  time.Time // of the first failure after the last answer; zero: it has answered
	cause  error
	told   bool
}

// note records what became of a request to a leader; nil: it has answered.
func (s *silence) note(leader string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.told {
		s.log.WithField("leader", leader).Info("the leader answers")
	}
	if err == nil || leader != s.leader {
		s.leader, s.since, s.told = leader, time.Time{}, false
	}
	if s.cause = err; err == nil {
		return
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	if !s.told && time.Since(s.since) >= s.limit {
		s.told = true
		s.log.WithError(err).WithField("leader", leader).Warn("the leader does not answer this netmaster, which cannot answer clients")
	}
}

// of returns an error if a leader has been silent for too long.
func (s *silence) of(leader string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leader != s.leader || s.since.IsZero() || time.Since(s.since) < s.limit {
		return nil
	}
	return fmt.Errorf("it has not answered for %s: %w", time.Since(s.since).Round(time.Second), s.cause)
}

// askLeader asks the leader every few seconds whether it answers, until ctx is done: there may be no clients. A leader,
// and who knows of none or was refused last, asks the store whether it takes changes. It logs that the store refuses this netmaster, as when its
// user has lost rights or has another password.
func (f *front) askLeader(ctx context.Context) {
	again := time.NewTicker(f.proxy.silence.every)
	defer again.Stop()
	var refused logging.Trouble // a repeated error is logged at intervals
	var denied, writing bool    // the last refusal is not over; it was one of a change
	log := f.proxy.silence.log
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		leader, err := f.proxy.leader.address(ctx)
		known, leads, asked := err == nil, f.leading() != nil, false
		switch {
		case err == nil && (leads || writing), errors.Is(err, errNoLeader): // perhaps because nobody may write
			var refusal error
			asked, refusal = f.askToWrite(ctx)
			err = cmp.Or(refusal, err)
		case err == nil:
			f.readOnly.Store(nil)
		}
		switch {
		case fault.Is(err, fault.Denied):
			if denied, writing = true, writing || asked; refused.IsNews(err, time.Now()) {
				log.WithError(err).Error("the store refuses this netmaster")
			}
		case err == nil && denied && (asked || !writing): // that it may read says nothing about changes
			denied, writing = false, false
			refused.Over()
			log.Info("the store accepts this netmaster again")
		}
		if !known || leads {
			continue // readyz says so itself
		}
		if err = f.proxy.ask(ctx); ctx.Err() == nil {
			f.proxy.silence.note(leader, err)
		}
	}
}

// askToWrite asks the store whether it takes changes from this netmaster, and records the answer for readyz. It reports
// whether the store was asked, see mayWrite.
func (f *front) askToWrite(ctx context.Context) (asked bool, err error) {
	asked, err = f.mayWrite(ctx)
	switch {
	case fault.Is(err, fault.Denied):
		f.readOnly.Store(&err)
	case err == nil && asked:
		f.readOnly.Store(nil)
	}
	return asked, err
}

// mayWrite asks the store whether it lets this netmaster write all that a leader does. A full store is not asked: that it
// takes nothing is known, and has another cause.
func (d *Daemon) mayWrite(ctx context.Context) (asked bool, err error) {
	if d.space.Admit() != nil {
		return false, nil
	}
	return true, d.db.MayWrite(ctx, mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.OperRoot, mastercfg.GlobalRoot, mastercfg.AccessRoot,
		objdb.ServicePrefix, objdb.LockKey(""))
}

// ask asks the leader whether it answers.
func (p *proxy) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, mastercfg.Scheme+"://"+p.self+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	resp, _, err := (&attempts{proxy: p}).try(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
