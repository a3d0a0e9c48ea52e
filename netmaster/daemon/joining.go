package daemon

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// A netmaster without CAs gets those of its cluster, with their keys, from another netmaster, by a join token
// or because Kubernetes vouches for it. Until then it does not stand for election: nodes that have joined could
// not authenticate it. The same applies to one without a token, while another netmaster with CAs can lead.

// joinerKeyFile contains the key to which the name of a netmaster is bound. It is on disk before it is first
// sent, so that a netmaster that got no answer can repeat the request with the same key.
const joinerKeyFile = "netmaster.key"

// Pauses between attempts to join.
const (
	firstJoinPause   = 500 * time.Millisecond
	longestJoinPause = 3 * time.Second
)

// join sends join requests to the other netmasters until one has admitted this one, or ctx ends.
func (d *Daemon) join(ctx context.Context) {
	var said string
	for pace := retry.NewPacer(firstJoinPause, longestJoinPause); d.joins() && ctx.Err() == nil; pace.Sleep(ctx) {
		if !d.toJoin.Load() && !d.member.notRunning() && !d.hasAuthorities(ctx) {
			continue // the cluster has no CAs yet
		}
		err := d.tryJoin(ctx)
		if err == nil {
			d.toJoin.Store(false)
			return
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			d.log.WithError(err).Error("this netmaster has not joined the cluster, trying again; it does not lead until then, if another one can")
		}
	}
}

// joins reports whether this netmaster still has to join: it has a token for that, or it can be vouched for and
// has not founded the cluster itself.
func (d *Daemon) joins() bool {
	return d.toJoin.Load() || d.cfg.Security.Vouched != nil && !d.certificates.hasAuthorities()
}

// hasAuthorities reports whether the cluster has CAs; false if the store cannot be read.
func (d *Daemon) hasAuthorities(ctx context.Context) bool {
	id, err := d.cluster(ctx)
	return err == nil && id != ""
}

func (d *Daemon) tryJoin(ctx context.Context) error {
	s := d.cfg.Security
	key, err := pki.OpenKey(filepath.Join(s.Dir, joinerKeyFile))
	if err != nil {
		return err
	}
	csr, err := pki.Request(key)
	if err != nil {
		return err
	}
	asked := slices.Clone(s.Join)
	masters, record, err := d.known(ctx)
	if err != nil && (len(s.Join) == 0 || !d.member.secure) {
		return err
	}
	for _, m := range masters {
		asked = append(asked, net.JoinHostPort(m.HostAddr, strconv.Itoa(m.Port)))
	}
	own := d.certificates.authorities()
	request := mastercfg.JoinRequest{Host: s.Name, CSR: csr, Established: own != nil}
	for _, addr := range s.Addresses {
		request.Addresses = append(request.Addresses, addr.String())
	}
	answer, err := s.sendJoin(ctx, asked, request)
	if err != nil {
		return err
	}
	all, err := pki.Decode(answer.Files)
	if err != nil {
		return fault.New(fault.Denied, "the token is none for netmasters, or not good any more: authorities in the answer: %w", err)
	}
	if own != nil && own.Cluster() != all.Cluster() {
		return fault.New(fault.Conflict, "the token is for cluster %s, and %s has the authorities of %s", all.Cluster(), s.Dir, own.Cluster())
	}
	if err := d.use(own, all, answer.Files, record.Keyring); err != nil {
		return err
	}
	d.log.WithField("cluster", all.Cluster()).Info("this netmaster has joined the cluster")
	return nil
}

// known returns the other netmasters and the security record in the store, if it can be read.
func (d *Daemon) known(ctx context.Context) (others []objdb.Service, record mastercfg.Security, err error) {
	if d.member.notRunning() {
		return nil, record, fault.New(fault.Unavailable, "this netmaster's member of the store is not started yet")
	}
	if others, err = d.otherNetmasters(ctx); err == nil {
		record, err = d.record(ctx)
	}
	return others, record, err
}

// sendJoin sends a join request, with the token or a proof that vouches for this netmaster.
func (s *Security) sendJoin(ctx context.Context, masters []string, request mastercfg.JoinRequest) (answer mastercfg.JoinResponse, err error) {
	if s.TokenFile == "" {
		token, authorities, err := s.Vouched(ctx)
		if err != nil {
			return answer, err
		}
		return joining.JoinVouched(ctx, masters, authorities, token, request)
	}
	text, err := pki.ReadSecret(s.TokenFile)
	if err != nil {
		return answer, err
	}
	token, err := jointoken.Parse(string(text))
	if err != nil {
		return answer, fmt.Errorf("%s: %w", s.TokenFile, err)
	}
	return joining.Join(ctx, masters, token, request)
}

// yieldToSecured ends the term if another registered netmaster has the CAs of the cluster, so that nodes can
// authenticate it, and this one has not. While CAs are replaced, the record briefly names others than the
// leader has, so the condition has to hold twice.
func (d *Daemon) yieldToSecured(ctx context.Context, end context.CancelCauseFunc) {
	for old := 0; ctx.Err() == nil; retry.Pause(ctx, yieldCheck) {
		if old++; d.upToDate(ctx) {
			old = 0
		}
		if !d.mayLead(ctx) || old > 1 {
			end(fault.New(fault.NotLeader, "another netmaster has the authorities of the cluster, and this one does not, or was removed"))
		}
	}
}

const yieldCheck = 2 * time.Second

// otherNetmasters lists the other registered netmasters.
func (d *Daemon) otherNetmasters(ctx context.Context) (others []objdb.Service, err error) {
	all, err := d.db.Services(ctx, mastercfg.MasterService)
	for _, s := range all {
		if net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port)) != d.cfg.Control {
			others = append(others, s)
		}
	}
	return others, err
}

// mayLead reports whether this netmaster may campaign, or continue to lead: it has the CAs of the
// cluster and was not removed, or no other netmaster may lead. If the store cannot be read, it is
// true: without the store there is no election either.
func (d *Daemon) mayLead(ctx context.Context) bool {
	removed := d.removed.has(d.cfg.Security.Name)
	switch {
	case d.toJoin.Load():
		return false
	case d.certificates.hasAuthorities() && !removed:
		return true
	}
	if cluster, err := d.cluster(ctx); err != nil || cluster == "" {
		return true
	}
	if !d.certificates.hasAuthorities() {
		return !d.anyOther(ctx, func(s objdb.Service) bool { return s.Authorities != "" })
	}
	record, err := d.record(ctx)
	return err != nil || !d.anyOther(ctx, func(s objdb.Service) bool { return registeredWith(s, record) && !d.removed.has(s.Hostname) })
}

// upToDate reports whether this netmaster has the CAs and the keyring of the record, or no other one has. One
// that was down while they were replaced follows until it has them. Netmasters without CAs do not count: they
// do not lead while this one can.
func (d *Daemon) upToDate(ctx context.Context) bool {
	record, err := d.record(ctx)
	if err != nil || !d.certificates.hasAuthorities() || d.hasRecorded(record) {
		return true
	}
	return !d.anyOther(ctx, func(s objdb.Service) bool { return registeredWith(s, record) })
}

// registeredWith reports whether a netmaster is registered with the CAs and the keyring of a record.
func registeredWith(s objdb.Service, record mastercfg.Security) bool {
	return s.Authorities != "" && (record.Authorities == "" || s.Authorities == record.Authorities) && (record.Keyring == "" || s.Keyring == record.Keyring)
}

// anyOther reports whether a condition holds for one of the other netmasters; false if the store cannot be read.
func (d *Daemon) anyOther(ctx context.Context, is func(objdb.Service) bool) bool {
	others, err := d.otherNetmasters(ctx)
	return err == nil && slices.ContainsFunc(others, is)
}
