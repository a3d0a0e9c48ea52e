package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// found gives a cluster its authorities, once: the leader makes them if it is told to
// protect the cluster and the cluster has none. They are on disk before the record says
// that they are the cluster's; those of a leader that died in between are taken by its
// next term.
func (d *Daemon) found(ctx context.Context, opened *ledger.Ledger) error {
	var stored mastercfg.Security
	err := opened.View(func(r ledger.Reader) (err error) {
		stored, err = ledger.Read[mastercfg.Security](r, mastercfg.SecurityKey)
		return err
	})
	switch {
	case err == nil:
		d.belong(stored.ClusterID)
		return nil
	case !fault.Is(err, fault.NotFound):
		d.log.WithError(err).Errorf("key %s cannot be read: requests are refused until it is as it was, from a backup", mastercfg.SecurityKey)
		return nil
	case !d.cfg.Security.Secure:
		return nil
	}
	if err := d.papers.found(); err != nil {
		return err
	}
	_, err = opened.Update(ctx, func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.SecurityKey, mastercfg.Security{Mode: mastercfg.SecurityPermissive, ClusterID: d.papers.authorities().Cluster()})
	})
	return err
}

// belong says what is wrong where this netmaster has no authorities, or those of another
// cluster. It leads all the same: what needs no certificate goes on.
func (d *Daemon) belong(cluster string) {
	d.papers.belong(cluster)
	if !d.papers.have() {
		d.log.WithField("cluster", cluster).Error("the cluster has authorities, this netmaster does not: it serves without TLS and nobody can join; " +
			"give it the directory that --pki-dir names of a netmaster that has them")
	}
}

// cluster is the one that the record names; empty: there is no record.
func (d *Daemon) cluster(ctx context.Context) (string, error) {
	kv, err := d.db.Get(ctx, mastercfg.SecurityKey)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var stored mastercfg.Security
	if err := json.Unmarshal(kv.Value, &stored); err != nil {
		return "", fault.New(fault.Internal, "key %s: %w", mastercfg.SecurityKey, err)
	}
	return stored.ClusterID, nil
}

// listenSocket opens the socket for root of this machine. One that is left of a netmaster
// that died is replaced; where one lives, that is an error.
func listenSocket(path string) (net.Listener, error) {
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		return nil, errors.Join(fault.New(fault.Conflict, "socket %s: another netmaster serves it", path), conn.Close())
	}
	if err := durable.Remove(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
