package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// A member with TLS needs a certificate of the store's CA before it is started, so the store cannot decide
// which netmaster makes the CAs. One netmaster founds the cluster. Each step is on its disk before the next
// one, so that it resumes where it was killed:
//
//	1  a note beside the data that it founds     embedded.Config.Found
//	2  the CAs, and a certificate                certificates.makeAuthorities
//	3  the member, alone
//	4  the security record of the cluster        Daemon.bootstrap, when it leads
//
// Every other netmaster gets the CAs (joining.go), requests the leader to add its member to the store, and
// starts the member with the answer; the leader repeats that answer on another request. A member that has data
// is started from that. The leader promotes members that have caught up.

// enter starts the member, however long the other netmasters take; it returns false if ctx has ended
// or the member has failed.
func (m *member) enter(ctx context.Context) bool {
	var said string
	for pace := retry.NewPacer(firstJoinPause, longestJoinPause); m.notRunning(); pace.Sleep(ctx) {
		if ctx.Err() != nil {
			return false
		}
		m.certificates.retrySigning()
		err := m.tryToEnter(ctx)
		if err != nil {
			m.waits.Store(fault.New(fault.Unavailable, "this netmaster's member of the store is not started yet: %w", err))
		}
		if fault.Is(err, fault.Invalid) {
			m.fail(err)
			return false
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			m.log.WithError(err).Warn("this netmaster's member of the store is not started yet, trying again")
		}
	}
	return true
}

func (m *member) tryToEnter(ctx context.Context) error {
	others, hasData := m.certificates.cfg.Join, embedded.HasData(m.cfg.Dir)
	if !m.certificates.hasAuthorities() {
		if err := m.certificates.whyUnsigned(); err != nil {
			return err
		}
		if hasData {
			return fault.New(fault.Unavailable, "it has data that others may reach over TLS only, and there are no authorities in %s: give it back that directory, or a token (--join-token-file)", m.certificates.cfg.Dir)
		}
		if err := m.mayFound(ctx, others); err != nil {
			return err
		}
		if err := m.cfg.Found(); err != nil {
			return err
		}
		if err := m.certificates.makeAuthorities(); err != nil {
			return err
		}
	}
	if hasData || m.cfg.Founds() {
		return m.start(ctx, m.withCertificates(nil))
	}
	if len(others) == 0 {
		return fault.New(fault.Unavailable, "it has authorities of a cluster in %s and no data, and knows no other netmaster: name them (--join, --embedded-etcd-peers), "+
			"restore its data, or remove the authorities to found a new cluster", m.certificates.cfg.Dir)
	}
	peers, err := joining.AddMember(ctx, m.certificates.dialer(), others, mastercfg.AddMemberRequest{Name: m.cfg.Name, PeerURL: m.cfg.PeerURL})
	if err != nil {
		return err
	}
	return m.start(ctx, m.withCertificates(peers))
}

// mayFound returns an error if this netmaster must not found a cluster.
func (m *member) mayFound(ctx context.Context, others []string) error {
	s := m.certificates.cfg
	if s.TokenFile != "" {
		return fault.New(fault.Unavailable, "it has no authorities yet, which other netmasters give it")
	}
	if s.Founding == "" || s.Founding == mastercfg.SecurityOpen {
		return fault.New(fault.Invalid, "the store's URLs are https, which needs authorities, and a new cluster is to be open: use http URLs, or leave out --insecure")
	}
	if s.Vouched != nil {
		switch _, _, err := s.Vouched(ctx); {
		case err == nil && joining.Cluster(ctx, others) == "":
			return fault.New(fault.Unavailable, "there is a cluster already, whose netmasters give it the authorities, and none of them answers yet; if this one was moved here from another node, "+
				"it has its data there: let it run there again; if all have lost their data, restore a backup, or have a new cluster founded: %s", s.Anew)
		case err == nil:
			return fault.New(fault.Unavailable, "it has no authorities yet, which other netmasters give it")
		case !fault.Is(err, fault.NotFound):
			return fmt.Errorf("not known whether there is a cluster: %w", err)
		}
	}
	if cluster := joining.Cluster(ctx, others); cluster != "" {
		return fault.New(fault.Unavailable, "there is a cluster already, %s: a netmaster without data and authorities enters it with a token "+
			"(netctl token create --role master, --join-token-file)", cluster)
	}
	if len(others) > 0 && !s.Founder {
		return fault.New(fault.Unavailable, "the first member of --embedded-etcd-peers founds the cluster; "+
			"this one enters it when that is there, with a token where no Kubernetes vouches for it (netctl token create --role master, --join-token-file)")
	}
	return nil
}

// withCertificates returns the configuration of the member with its certificates; peers are the members of the
// cluster to which it was added.
func (m *member) withCertificates(peers map[string]string) embedded.Config {
	cfg := m.certificates.memberWithCertificates(*m.cfg)
	cfg.Grows, cfg.Peers = true, peers
	return cfg
}

// addMember adds the member of another netmaster to the store.
func (d *Daemon) addMember(ctx context.Context, name, peerURL string) (map[string]string, error) {
	peers, err := d.db.AddMember(ctx, name, peerURL)
	d.promoting.Send()
	return peers, err
}

// Times between checks for members that have no vote yet: while there are some, and otherwise.
const (
	promoteSoon = 500 * time.Millisecond
	promoteLate = 10 * time.Second
)

// promote promotes members that have caught up to voters, until ctx ends.
func (d *Daemon) promote(ctx context.Context) {
	for ctx.Err() == nil {
		wait := promoteLate
		waiting, err := d.db.PromoteMembers(ctx)
		if err != nil {
			d.log.WithError(err).Debug("members of the store that are to get a vote")
		}
		if waiting {
			wait = promoteSoon
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.promoting:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
