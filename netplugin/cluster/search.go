package cluster

import (
	"context"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// Pauses between two rounds in which every netmaster was asked.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// search is the state of one request's way to the leader.
type search struct {
	directory Directory
	limits    Limits
	known     string          // who answered the request before this; asked first
	failed    map[string]bool // asked in this round, in vain
	pace      *retry.Pacer    // between rounds
	awaySince time.Time       // the store has not answered since; zero: it does
	exhausted bool            // nobody is left to ask in this round
}

// newSearch begins at who answered the request before; empty: nobody has.
func newSearch(directory Directory, limits Limits, known string) search {
	return search{directory: directory, limits: limits, known: known,
		failed: make(map[string]bool), pace: retry.NewPacer(firstPause, mostPause)}
}

// next is whom to ask: who answered last time, the lock's holder, or a
// registered netmaster that was not asked in this round.
func (s *search) next(ctx context.Context) (string, error) {
	if known := s.known; known != "" {
		s.known = ""
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Lookup)
	defer cancel()
	holder, err := s.directory.Holder(ctx, mastercfg.LeaderLock)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", s.storeAway(err)
	}
	if err == nil && !s.failed[holder] {
		s.awaySince = time.Time{}
		return holder, nil
	}
	masters, err := s.directory.Services(ctx, mastercfg.MasterService)
	if err != nil {
		return "", s.storeAway(err)
	}
	s.awaySince = time.Time{}
	for _, master := range masters {
		if candidate := address(master); !s.failed[candidate] {
			return candidate, nil
		}
	}
	s.exhausted = true
	return "", fault.New(fault.Unavailable, "no netmaster leads and none of %d registered ones answers", len(masters))
}

// rejected takes a netmaster out of this round.
func (s *search) rejected(address string) {
	s.failed[address] = true
}

func (s *search) storeAway(err error) error {
	if s.awaySince.IsZero() {
		s.awaySince = time.Now()
	}
	s.exhausted = true
	return fault.New(fault.Unavailable, "leading netmaster is not known: %w", err)
}

// hopeless tells whether the store has been away for so long that netmaster
// cannot have it either.
func (s *search) hopeless() bool {
	return !s.awaySince.IsZero() && time.Since(s.awaySince) >= s.limits.Store
}

// rest ends a round in which everybody was asked, after a pause; within a round
// the next one is asked at once.
func (s *search) rest(ctx context.Context) error {
	if !s.exhausted {
		return ctx.Err()
	}
	s.exhausted = false
	clear(s.failed)
	s.pace.Sleep(ctx)
	return ctx.Err()
}
