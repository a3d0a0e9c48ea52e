package daemon

import (
	"context"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/retry"
)

// etcd reads its certificate for each connection, but the CAs that it trusts at its start only. So when CAs are
// replaced, members are restarted inside their processes, one after the other: first to trust the new CA as
// well, then to stop trusting the old one. A member without TLS, of a cluster of an earlier version, is
// restarted with TLS when there are CAs.

// registeredAuthorities returns the hash of the CAs that this netmaster registers. Until the member has been
// restarted with the present ones, it is that of the previous ones.
func (m *member) registeredAuthorities() string {
	if !m.secure {
		return m.certificates.authorities().Hash()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// upToDate reports whether the member trusts the present CAs of the store, and, once, that this is new.
func (m *member) upToDate() (is, news bool) {
	now := m.certificates.current.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	if now == nil || m.believes == nil || !now.store.RootCAs.Equal(m.believes) {
		return now == nil, false
	}
	hash := now.authorities.Hash()
	news = m.known != hash
	m.known = hash
	return true, news
}

// memberLock is held by the netmaster whose member is down for a while: it is restarted, or its
// database file is defragmented.
const memberLock = "netmaster/member"

const (
	// memberLockTTL is how long the others wait for a netmaster that died while it restarted its member.
	memberLockTTL = 30 * time.Second
	// rewriteLockTTL is the same for defragmenting, which takes a second per 200 MB. Meanwhile the
	// netmaster may reach no other member to renew the lock.
	rewriteLockTTL = 5 * time.Minute
	// longestTurn is how long a netmaster waits for the lock.
	longestTurn = 30 * time.Second
)

// turn waits for the lock, and returns the function that releases it.
func (m *member) turn(ctx context.Context, ttl time.Duration) (end func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, longestTurn)
	defer cancel()
	term, err := m.db.Campaign(waiting, objdb.CampaignConfig{Lock: memberLock, Value: m.cfg.Name, TTL: ttl})
	if err != nil {
		return nil, err
	}
	return func() {
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
		defer cancel()
		if err := term.Resign(parting); err != nil {
			m.log.WithError(err).Warn("the next member has its turn when this one's has ended by itself")
		}
	}, nil
}

// renew restarts the member if the trusted CAs of the store have changed, and only then registers them. One
// netmaster does so at a time. A new certificate needs no restart: etcd reads it for each connection.
func (m *member) renew(ctx context.Context) {
	is, news := m.upToDate()
	if news {
		m.announce()
	}
	if is {
		return
	}
	end, err := m.turn(ctx, memberLockTTL)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if m.db.Ping(ctx) == nil {
			return // others restart theirs
		}
		// The member may have been down for so long that the others refuse it: without the store there is no lock to wait for.
		if err := m.again(ctx); err != nil {
			m.fail(err)
			return
		}
		m.announce()
		return
	}
	defer end()
	if err := m.again(ctx); err != nil {
		m.fail(err)
		return
	}
	m.log.Info("the member of the store was started again: it takes certificates of the authorities of now")
	for ctx.Err() == nil && (m.db.Ping(ctx) != nil || !m.publish(ctx)) {
		select {
		case err := <-m.running().Err():
			m.fail(err)
			return
		default:
			retry.Pause(ctx, objdb.RetryFirst)
		}
	}
	m.upToDate()
	m.announce()
}

// again restarts the member.
func (m *member) again(ctx context.Context) error {
	if err := m.Stop(); err != nil {
		return err
	}
	return m.start(ctx, m.withCertificates(nil))
}
