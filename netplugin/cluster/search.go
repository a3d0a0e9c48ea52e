package cluster

import (
	"context"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// Pauses between two rounds over all netmasters.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// search is the state of one request's search for the leader.
type search struct {
	directory Directory
	limits    Limits
	known     string          // netmaster that answered the previous request; asked first
	failed    map[string]bool // netmasters that failed in this round
	pace      *retry.Pacer    // between rounds
	awaySince time.Time       // when the store stopped answering; zero: it answers
	exhausted bool            // every netmaster was asked in this round
}

// newSearch returns a search that begins at known, the netmaster that answered the previous request; empty: none.
func newSearch(directory Directory, limits Limits, known string) search {
	return search{directory: directory, limits: limits, known: known,
		failed: make(map[string]bool), pace: retry.NewPacer(firstPause, mostPause)}
}

// next returns the netmaster to try: the one that answered last, the holder of the lock, or a registered one that
// was not tried in this round.
func (s *search) next(ctx context.Context) (string, error) {
	if known := s.known; known != "" {
		s.known = ""
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Lookup)
	defer cancel()
	holder, err := s.directory.Holder(ctx, mastercfg.LeaderLock)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", s.noteStoreError(err)
	}
	if err == nil && !s.failed[holder] {
		s.awaySince = time.Time{}
		return holder, nil
	}
	masters, err := s.directory.Services(ctx, mastercfg.MasterService)
	if err != nil {
		return "", s.noteStoreError(err)
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

// exclude removes a netmaster from this round.
func (s *search) exclude(address string) {
	s.failed[address] = true
}

func (s *search) noteStoreError(err error) error {
	if s.awaySince.IsZero() {
		s.awaySince = time.Now()
	}
	s.exhausted = true
	return fault.New(fault.Unavailable, "leading netmaster is not known: %w", err)
}

// storeDownLong reports whether the store has been down for so long that netmaster has lost it, too.
func (s *search) storeDownLong() bool {
	return !s.awaySince.IsZero() && time.Since(s.awaySince) >= s.limits.Store
}

// endRound waits after a round in which all netmasters were tried; within a round there is no wait.
func (s *search) endRound(ctx context.Context) error {
	if !s.exhausted {
		return ctx.Err()
	}
	s.exhausted = false
	clear(s.failed)
	s.pace.Sleep(ctx)
	return ctx.Err()
}
