package agent

import (
	"slices"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/utils/fault"
)

// Ready returns why endpoints cannot be attached at the moment: the first complete state or a later change cannot be
// read, the switch has never had all of the state, or the switch does not answer, which is reported in preference to
// missing state. The store may be unreachable: attached endpoints forward, and a new endpoint fails at netmaster.
func (a *Agent) Ready() error {
	a.mu.Lock()
	err, global := a.missing(), a.cache.global
	a.mu.Unlock()
	_, unserved := modeOf(global)
	switch {
	case err != nil && !a.serving.raised():
		if affected := a.switchProblem(); affected != nil {
			return affected
		}
		if status := a.cfg.Driver.Status(); status.Lost {
			return &outage{fault.New(fault.Unavailable, "switch with bridge %s has lost its flows: %w", status.Bridge, err)}
		}
		if a.storeRead() {
			return err
		}
		return &unread{err}
	case global.FwdMode != "" && unserved != nil:
		return unserved
	case !a.inSync.raised():
		return fault.New(fault.Unavailable, "switch has not been brought in line with the store yet")
	}
	if affected := a.switchProblem(); affected != nil {
		return affected
	}
	return a.storeProblem()
}

// storeProblem returns an error if the store answers but changes
// cannot be read, so that a new endpoint would not be programmed.
func (a *Agent) storeProblem() error {
	for _, m := range a.mirrors {
		if err := m.Unreadable(); err != nil {
			return fault.New(fault.Unavailable, "%s: changes cannot be read: %w", m.prefix, err)
		}
	}
	return nil
}

// owedLong is how long changes may be outstanding while the switch accepts none and answers nothing else: as
// long as kube-proxy may be behind, and longer than a switch needs to answer.
const owedLong = time.Minute

// switchProblem returns an error if the switch does not answer, or accepts no changes.
func (a *Agent) switchProblem() error {
	for _, status := range a.cfg.Driver.Status().Bridges() {
		owed := time.Since(status.Owes)
		switch {
		case !status.Connected:
			return &outage{fault.New(fault.Unavailable, "switch with bridge %s does not answer: %s", status.Bridge, status.LastError)}
		case !status.Owes.IsZero() && owed > owedLong:
			return &outage{fault.New(fault.Unavailable, "switch with bridge %s takes no changes, though they have waited for %s: %s", status.Bridge, owed.Round(time.Second), status.LastError)}
		}
	}
	return nil
}

// hasPending reports whether a switch has outstanding changes and has accepted none of them, for however short a time.
func (a *Agent) hasPending() bool {
	return slices.ContainsFunc(a.cfg.Driver.Status().Bridges(), func(s drivers.Status) bool { return !s.Owes.IsZero() })
}

// outage is a failure that also affects attached endpoints.
type outage struct{ cause *fault.Error }

func (o *outage) Error() string { return o.cause.Error() }
func (o *outage) Unwrap() error { return o.cause }

// PodsAffected marks the error for the CNI STATUS command.
func (o *outage) PodsAffected() bool { return true }

// storeRead reports whether the store has been read since this process started.
func (a *Agent) storeRead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(a.mirrors, func(m *follower) bool { return !m.complete })
}

// unread is the failure that this process has not read the store
// yet. The switch answers, and keeps the flows that it has.
type unread struct{ error }

func (u *unread) Unwrap() error { return u.error }

// StoreUnread marks the error for the CNI STATUS command.
func (u *unread) StoreUnread() bool { return true }
