package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

const (
	// keepUpEvery is how often a follower compares its CAs with those in the security record.
	keepUpEvery = time.Second
	// longestKeepUp is the longest pause between attempts to get the same CAs from the same leader.
	longestKeepUp = time.Minute
)

// keepUp gets the CAs and the keyring in the record from the leader, whenever this netmaster has others, until
// ctx ends. A netmaster that was down for so long that it and the leader cannot authenticate each other any
// more joins again, if it has a token.
func (d *Daemon) keepUp(ctx context.Context) {
	var said string
	again := tries{pace: retry.NewPacer(keepUpEvery, longestKeepUp)}
	for ; ctx.Err() == nil; retry.Pause(ctx, keepUpEvery) {
		own := d.certificates.authorities()
		record, err := d.record(ctx)
		if err != nil && own != nil && d.lockedOut(ctx, own) && again.due(aim{}) {
			if err := d.tryJoin(ctx); err != nil && ctx.Err() == nil {
				d.log.WithError(err).Error("the store does not let this netmaster's member in, nor can it join anew: trying again")
			}
		}
		if err != nil || own == nil || d.front.leading() != nil {
			continue
		}
		if d.hasRecorded(record) {
			again.at, said = aim{}, ""
			continue
		}
		leader, err := d.front.proxy.leader.address(ctx)
		if err != nil || !again.due(aim{record, leader}) {
			continue
		}
		if err := d.catchUp(ctx, own, record, leader); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			d.log.WithError(err).Error("the authorities or the keyring here are not those of the cluster, and it is not given these: trying again")
		}
	}
}

// lockedOut reports whether the store cannot be read because the CAs were replaced while this netmaster, which was not
// removed, was down: the other members then refuse its member, and have certificates of a CA that is unknown here.
func (d *Daemon) lockedOut(ctx context.Context, own pki.Authorities) bool {
	s := d.cfg.Security
	if !d.member.secure || len(s.Join) == 0 || s.TokenFile == "" && s.Vouched == nil || d.removed.has(s.Name) {
		return false
	}
	known := x509.NewCertPool()
	for _, c := range own[pki.API].Bundle() {
		known.AddCert(c)
	}
	_, err := joining.Known(ctx, s.Join, known)
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

// aim is the record that a follower has not caught up with, and the leader to get it from.
type aim struct {
	record mastercfg.Security
	leader string
}

// tries paces the attempts at an aim; the first one at another aim is due at once.
type tries struct {
	at   aim
	next time.Time
	pace *retry.Pacer
}

func (t *tries) due(at aim) bool {
	now := time.Now()
	if t.at != at {
		t.at, t.next = at, now
		t.pace.Reset()
	}
	if now.Before(t.next) {
		return false
	}
	t.next = now.Add(t.pace.Next())
	return true
}

// catchUp gets the CAs and the keyring from the leader, or joins again if the two cannot authenticate each
// other. Other errors, such as of a keyring, are returned.
func (d *Daemon) catchUp(ctx context.Context, own pki.Authorities, record mastercfg.Security, leader string) error {
	err := d.takeOver(ctx, own, record, leader)
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Unauthenticated, fault.Denied: // one of the two does not trust the other
	default:
		return err
	}
	if d.removed.has(d.cfg.Security.Name) {
		return fmt.Errorf("%w; this netmaster was removed, and joins again when it is started with an empty --pki-dir", err)
	}
	if s := d.cfg.Security; s.TokenFile != "" || s.Vouched != nil {
		anew := d.tryJoin(ctx)
		if anew == nil {
			return nil
		}
		err = fmt.Errorf("%w; nor can it join anew: %w", err, anew)
	}
	return fmt.Errorf("%w (a netmaster that was away while the authorities were replaced needs a token of now, netctl token create --role master, in its --join-token-file)", err)
}

// hasRecorded reports whether this netmaster has the CAs and the keyring of a record.
func (d *Daemon) hasRecorded(record mastercfg.Security) bool {
	return (record.Authorities == "" || record.Authorities == d.certificates.authorities().Hash()) &&
		(record.Keyring == "" || record.Keyring == d.keyring.State())
}

func (d *Daemon) takeOver(ctx context.Context, own pki.Authorities, record mastercfg.Security, leader string) error {
	config := d.certificates.dialer()
	if config == nil {
		return nil
	}
	files, err := joining.Authorities(ctx, config, leader)
	if err != nil {
		return err
	}
	all, err := pki.Decode(files)
	if err != nil {
		return err
	}
	if all.Cluster() != own.Cluster() || record.Authorities != "" && all.Hash() != record.Authorities {
		return fault.New(fault.Conflict, "netmaster at %s has other authorities than the cluster's record names", leader)
	}
	if err := d.use(own, all, files, record.Keyring); err != nil {
		return err
	}
	if !d.hasRecorded(record) { // as from an older version, which sends no keyring
		return fault.New(fault.Conflict, "netmaster at %s leads and has another keyring than the cluster's record names: start a netmaster that has that one; "+
			"if there is none, netctl security rotate-keys has the record name the leader's", leader)
	}
	d.log.WithFields(logrus.Fields{"step": all.Step(), "keyring": d.keyring.State()}).Info("authorities and keyring are those of the leader")
	return nil
}

// use stores the files of another netmaster: the keyring first, since a netmaster with the CAs may lead. named
// is the state of the keyring that the record names.
func (d *Daemon) use(own, all pki.Authorities, files map[string]string, named string) error {
	if keys := files[keyring.Name]; keys != "" && d.keyring != nil {
		if err := d.keyring.Take(keys, named); err != nil {
			return fmt.Errorf("%w (a keyring that cannot be read is not replaced: once its file is moved away, that of the cluster is taken)", err)
		}
	}
	if own.Hash() == all.Hash() {
		return nil
	}
	return d.certificates.replace(own, all)
}
