package daemon

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/membership"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// bootstrap makes the CAs of a cluster, once. The leader makes them if a new cluster is to have them, or if it
// is configured to make them for a cluster of an earlier version. They are on disk before the security record
// names them; if a leader dies in between, its next term uses them. A cluster that has data and no record is
// open, and stays so unless it is configured otherwise: no upgrade closes it.
func (d *Daemon) bootstrap(ctx context.Context, opened *ledger.Ledger) error {
	var stored mastercfg.Security
	founded := d.cfg.Security.Founding
	err := opened.View(func(r ledger.Reader) (err error) {
		if !isNew(r) {
			founded = mastercfg.SecurityOpen
			if d.cfg.Security.Secure {
				founded = mastercfg.SecurityPermissive
			}
		}
		stored, err = ledger.Read[mastercfg.Security](r, mastercfg.SecurityKey)
		return err
	})
	switch {
	case err == nil:
		d.checkAuthorities(stored.ClusterID)
		return d.nameKeyring(ctx, opened, stored)
	case !fault.Is(err, fault.NotFound):
		d.log.WithError(err).Errorf("key %s cannot be read: requests are refused until it is as it was, from a backup", mastercfg.SecurityKey)
		return nil
	case founded == mastercfg.SecurityOpen || founded == "":
		return nil
	}
	if founded == mastercfg.SecurityEnforced {
		if err := d.foundingRefusedByStore(ctx); err != nil {
			return err
		}
	}
	if err := d.certificates.makeAuthorities(); err != nil {
		return err
	}
	if err := d.keyring.Make(); err != nil {
		return err
	}
	_, err = opened.Update(ctx, func(tx *ledger.Tx) error {
		return access.SetSecurity(tx, mastercfg.Security{
			Mode: founded, ClusterID: d.certificates.authorities().Cluster(), Keyring: d.keyring.State(),
			Sealed: d.cfg.Security.Store,
		})
	})
	if err == nil {
		d.log.WithField("mode", founded).Info("the cluster asks who somebody is")
	}
	return err
}

// StoreExposed is an error of Daemon.Run: a new cluster is to be enforced, and its store can be reached from
// elsewhere without TLS. Only other flags help.
type StoreExposed struct{ error }

// Unwrap returns the reason.
func (s StoreExposed) Unwrap() error { return s.error }

// foundingRefusedByStore refuses to found an enforced cluster on a store that other hosts can reach without
// TLS: they could change anything in it.
func (d *Daemon) foundingRefusedByStore(ctx context.Context) error {
	if err := d.cfg.foundingRefusal(); err != nil {
		return err
	}
	exposed, err := d.db.ExposedURLs(ctx)
	if err == nil && len(exposed) > 0 { // a member that is reached on loopback may listen elsewhere, too
		err = storeExposed("members of the store at " + strings.Join(exposed, ", "))
	}
	return err
}

// foundingRefusal returns a StoreExposed if an enforced cluster is to be founded on a store that flags expose.
func (cfg Config) foundingRefusal() error {
	if cfg.Security.Founding != mastercfg.SecurityEnforced {
		return nil
	}
	var exposed []string
	add := func(flag, url string) {
		if inet.IsExposed(url) {
			exposed = append(exposed, flag+" "+url)
		}
	}
	if cfg.Embedded != nil {
		add("--embedded-etcd-client-url", cfg.Embedded.ClientURL)
		add("--embedded-etcd-peer-url", cfg.Embedded.PeerURL)
	} else {
		for _, url := range cfg.Store.Endpoints {
			add("--etcd-endpoints", url)
		}
	}
	if len(exposed) == 0 {
		return nil
	}
	return storeExposed(strings.Join(exposed, ", "))
}

func storeExposed(where string) error {
	return StoreExposed{fault.New(fault.Invalid, "%s: whoever reaches this owns the store, and so the new cluster, which is to be enforced (--secure, or its default): "+
		"use https there, or a loopback address, or found an open cluster (--insecure)", where)}
}

// nameKeyring records the keyring of a cluster of an earlier version in its security record: that of the first
// leader that can decrypt the secrets.
func (d *Daemon) nameKeyring(ctx context.Context, opened *ledger.Ledger, stored mastercfg.Security) error {
	if !d.certificates.hasAuthorities() || d.keyring == nil || stored.Keyring != "" {
		return nil
	}
	if err := d.keyring.Make(); err != nil {
		d.log.WithError(err).Error("the keyring cannot be used: secrets in the store cannot be read")
		return nil
	}
	var foreign string
	err := opened.View(func(r ledger.Reader) error {
		membership.EachSealed(r, func(key string, value []byte) {
			if !d.keyring.Opens(key, value) {
				foreign = key
			}
		})
		return nil
	})
	if err != nil || foreign != "" {
		d.log.WithField("key", foreign).Error("a secret in the store was sealed by another netmaster, whose keyring is not known here: " +
			"the netmasters are given that keyring when one that has it leads")
		return err
	}
	_, err = opened.Update(ctx, func(tx *ledger.Tx) error {
		record, err := ledger.Read[mastercfg.Security](tx, mastercfg.SecurityKey)
		if err != nil {
			return err
		}
		record.Keyring = d.keyring.State()
		return ledger.Write(tx, mastercfg.SecurityKey, record)
	})
	return err
}

// isNew reports whether no netmaster has led the cluster yet: the first one makes the global object.
func isNew(r ledger.Reader) bool {
	empty := true
	for _, root := range []string{mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.AccessRoot} {
		r.Range(root, func(string, []byte) bool { empty = false; return false })
	}
	return empty
}

// checkAuthorities logs an error if this netmaster has no CAs, or those of another cluster. It leads
// nevertheless: everything that needs no certificate works.
func (d *Daemon) checkAuthorities(cluster string) {
	d.certificates.dropForeign(cluster)
	if !d.certificates.hasAuthorities() {
		d.log.WithField("cluster", cluster).Error("the cluster has authorities, and no netmaster that runs has them: this one serves without TLS and nobody can join; " +
			"start one that has them in its --pki-dir, and let this one join with a token for netmasters (--join-token-file)")
	}
}

// cluster returns the cluster id in the security record; empty if there is no record.
func (d *Daemon) cluster(ctx context.Context) (string, error) {
	stored, err := d.record(ctx)
	return stored.ClusterID, err
}

// record returns the security record of the cluster; the zero value if there is none.
func (d *Daemon) record(ctx context.Context) (stored mastercfg.Security, err error) {
	kv, err := d.db.Get(ctx, mastercfg.SecurityKey)
	if fault.Is(err, fault.NotFound) {
		return stored, nil
	}
	if err != nil {
		return stored, err
	}
	if err := json.Unmarshal(kv.Value, &stored); err != nil {
		return stored, fault.New(fault.Internal, "key %s: %w", mastercfg.SecurityKey, err)
	}
	return stored, nil
}
