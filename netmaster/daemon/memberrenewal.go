package daemon

import (
	"context"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/retry"
)

// etcd reads its certificate for each connection, and the authorities that it believes at its
// start only. So where the authorities are replaced, members are started again inside their
// processes, one after the other: when one is believed beside the old one, and when the old one
// is not believed any more. One that was plain, in a cluster of an earlier version, is started again with TLS when there
// are authorities.

// knows is the hash of the authorities by which others can be sure that this netmaster is reached: of a member that
// still has to be started again for those of now it is that of those before.
func (m *member) knows() string {
	if !m.secure {
		return m.certificates.authorities().Hash()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// upToDate tells whether the member believes the authority of the store as it is now, and notes that it does.
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

// memberLock is held by the netmaster whose member is away for a while: it is started again, or its
// file is written anew.
const memberLock = "netmaster/member"

const (
	// memberLockTTL is how long the others wait for one that died while its member was started again.
	memberLockTTL = 30 * time.Second
	// rewriteLockTTL is the same for one whose file was written anew. Meanwhile, which takes a second per
	// 200 MB, its netmaster may reach no other member to renew the lock at.
	rewriteLockTTL = 5 * time.Minute
	// longestTurn is how long one waits for its turn.
	longestTurn = 30 * time.Second
)

// turn waits until no other member is away, and returns what ends the turn.
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

// renew starts the member again where the authority of the store is another one, or one more or
// less is believed, and only then says that this netmaster knows them. One netmaster does so at a time. A certificate
// alone needs no start: etcd reads it for each connection.
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
			return // others have their turns
		}
		// As of one that was away for so long that the others do not let it in: it serves nobody.
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

// again stops the member and starts it.
func (m *member) again(ctx context.Context) error {
	if err := m.Stop(); err != nil {
		return err
	}
	return m.start(ctx, m.armed(nil))
}
