package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/notify"
)

// values stores the model and the state encrypted or in plain, as configured (--encrypt-values). Only the
// leader writes them; all daemons can decrypt them.
type values struct {
	*keyring.Values
	wanted  bool
	keyring *keyring.Keyring
	db      *objdb.DB
	record  func(context.Context) (mastercfg.Security, error) // of the cluster's security

	admit      func() error  // an error: the store has no room for more
	registered func() string // the key of this netmaster's registration
	turned     notify.Signal // another key encrypts now

	mu  sync.Mutex
	say string // for security status; empty: values are stored as configured
}

// rewrittenAtOnce is how many values are rewritten in one plan: at most as many as fit into a transaction of any store.
const rewrittenAtOnce = objdb.FewOps / 4

// sealAgain is the pause before values are encrypted again after a failure.
const sealAgain = 10 * time.Second

// begin turns on encryption at the start of a term if all daemons can read encrypted values, so that no value
// of a new cluster is ever stored in plain.
func (v *values) begin(ctx context.Context) error {
	switch {
	case v == nil:
	case !v.wanted:
		v.SetSealing(false)
	case !v.Sealing():
		return v.seal(ctx)
	}
	return nil
}

// learn sets the status at the start of a term, when it is unknown whether some values are still
// stored in plain; keep finds out.
func (v *values) learn() {
	if v != nil && (v.wanted || v.Met()) {
		v.setStatus("not as they are to be yet: the term has just begun")
	}
}

// seal turns on encryption. It fails if a daemon could not read encrypted values.
func (v *values) seal(ctx context.Context) error {
	record, err := v.record(ctx)
	if err != nil {
		return err
	}
	switch {
	case v.keyring.State() != "":
	case record.Keyring != "" || v.Met(): // the keyring is lost, and another one decrypts nothing
		return fault.New(fault.Conflict, "values of the store cannot be sealed (--encrypt-values): the cluster has a keyring, and this netmaster does not: copy %s from another one", keyring.Name)
	default: // before the other daemons are asked: nothing is encrypted with a keyring that they lack
		if err := v.keyring.Make(); err != nil {
			return err
		}
	}
	// Read one value: it shows whether values are encrypted already, if this process has not read any yet.
	if _, err := v.db.Get(ctx, mastercfg.ModelKey("global", contivmodel.GlobalName)); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if !v.Met() {
		blind, err := v.cannotRead(ctx)
		if err != nil {
			return err
		}
		if len(blind) > 0 {
			return fault.New(fault.Conflict, "values of the store cannot be sealed (--encrypt-values) while these would not read them: %s: "+
				"netmasters and nodes have to be of this version, netmasters to have the keyring, and nodes to ask netmasters (netplugin --netmasters)", strings.Join(blind, ", "))
		}
	}
	v.SetSealing(true)
	return nil
}

// cannotRead lists the registered daemons that cannot read encrypted values. This netmaster does not count: its
// registration may be older than its keyring.
func (v *values) cannotRead(ctx context.Context) (blind []string, err error) {
	for _, kind := range []string{mastercfg.MasterService, mastercfg.AgentService} {
		all, err := v.db.Services(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			lacks := kind == mastercfg.MasterService && s.Keyring != v.keyring.State() && s.Key() != v.registered()
			if !s.Opens || lacks {
				blind = append(blind, fmt.Sprintf("%s %s at %s", s.ServiceName, s.Hostname, net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port))))
			}
		}
	}
	slices.Sort(blind)
	return slices.Compact(blind), nil
}

// keep rewrites values that are not stored as configured, until ctx ends: at the start of a term, and
// when another key encrypts.
func (v *values) keep(ctx context.Context, opened *ledger.Ledger, log *logrus.Entry) {
	var trouble logging.Trouble
	for ctx.Err() == nil {
		again := (<-chan time.Time)(nil)
		if err := v.rewrite(ctx, opened, log); err != nil && ctx.Err() == nil {
			if trouble.IsNews(err, time.Now()) {
				log.WithError(err).Warn("values of the store are not stored as they are to be, trying again")
			}
			v.setStatus("not as they are to be yet: " + err.Error())
			again = time.After(sealAgain)
		}
		select {
		case <-ctx.Done():
		case <-again:
		case <-v.turned:
		}
	}
}

// rewrite rewrites the values that are not stored as configured.
func (v *values) rewrite(ctx context.Context, opened *ledger.Ledger, log *logrus.Entry) error {
	if !v.wanted && !v.Met() {
		v.setStatus("")
		return nil
	}
	if v.wanted && !v.Sealing() {
		if err := v.seal(ctx); err != nil {
			return err
		}
	}
	outdated, err := v.outdated(ctx)
	if err != nil {
		return err
	}
	for keys := range slices.Chunk(outdated, rewrittenAtOnce) {
		if err := v.admit(); err != nil { // until compaction the history has each value twice
			return err
		}
		if _, err := opened.Update(ctx, func(tx *ledger.Tx) error {
			for _, key := range keys {
				tx.Rewrite(key)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	v.setStatus(map[bool]string{true: "sealed"}[v.wanted])
	if len(outdated) == 0 {
		return nil
	}
	log.WithField("count", len(outdated)).WithField("sealed", v.wanted).Info("values of the store were stored anew; how they were before is in its history until that is compacted")
	return nil
}

// outdated returns the keys whose values are not stored as configured.
func (v *values) outdated(ctx context.Context) (keys []string, err error) {
	for _, root := range []string{mastercfg.ModelRoot, mastercfg.StateRoot} {
		stored, _, err := v.db.List(objdb.AsStored(ctx), root)
		if err != nil {
			return nil, err
		}
		for _, kv := range stored {
			current, err := v.IsCurrent(kv.Value)
			if err != nil {
				return nil, err
			}
			if !current {
				keys = append(keys, kv.Key)
			}
		}
	}
	return keys, nil
}

func (v *values) setStatus(say string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.say = say
}

// status returns the status that was set last.
func (v *values) status() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.say
}
