package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// joinOptions are the flags about the node's identity.
type joinOptions struct {
	tokenFile   string
	authorities string // file
	dir         string
}

// wanted reports whether the node is to join, or has already joined.
func (o joinOptions) wanted() bool {
	_, err := os.Stat(filepath.Join(o.dir, membership.AuthorityFile))
	return o.tokenFile != "" || o.dir != "" && err == nil
}

// newStore opens the store: etcd itself, or netmasters, to which the node authenticates with its certificate. It
// also returns the node's membership; nil if it is not to join.
func newStore(o *options) (*objdb.DB, *membership.Member, error) {
	var db *objdb.DB
	member, err := newMember(o, func(ctx context.Context) ([]string, error) {
		if len(o.masters) > 0 {
			return hosts(db.Endpoints()), nil
		}
		return registered(ctx, db)
	})
	if err != nil {
		return nil, nil, err
	}
	cfg := storeConfig(o)
	if len(o.masters) > 0 {
		cfg.TLS = func() (*tls.Config, error) {
			if conf := member.TLS(); conf != nil {
				return conf, nil
			}
			return nil, fault.New(fault.Unavailable, "the node has not joined yet")
		}
		cfg.Endpoints, cfg.OneAtATime = append(slices.Clone(o.masters), recallMasters(o)...), true
	}
	if db, err = objdb.Open(cfg); err != nil {
		return nil, nil, &configError{[]error{err}}
	}
	return db, member, nil
}

// newMember returns the node's membership with its credentials; nil if it is not to join.
func newMember(o *options, masters func(context.Context) ([]string, error)) (*membership.Member, error) {
	if !o.join.wanted() {
		return nil, nil
	}
	addresses := hostaddr.All()
	if own := o.node.CtrlIP.String(); !slices.Contains(addresses, own) {
		addresses = append([]string{own}, addresses[:min(len(addresses), hostaddr.Most-1)]...)
	}
	member, err := membership.Open(membership.Config{
		Dir: o.join.dir, TokenFile: o.join.tokenFile, AuthoritiesFile: o.join.authorities, Host: o.node.HostLabel,
		Addresses: addresses, Control: o.node.CtrlIP.String(), VTEPs: []string{o.node.VTEP.String()},
		Masters: masters, Log: logrus.WithField("component", "membership"),
	})
	if err != nil {
		return nil, &configError{[]error{err}}
	}
	return member, nil
}

// registered returns the addresses of the netmasters in the registry.
func registered(ctx context.Context, db *objdb.DB) (addresses []string, err error) {
	all, err := db.Services(ctx, mastercfg.MasterService)
	for _, s := range all {
		addresses = append(addresses, net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port)))
	}
	return addresses, err
}

// hosts returns the addresses in URLs.
func hosts(urls []string) (addresses []string) {
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			addresses = append(addresses, u.Host)
		}
	}
	return addresses
}

// storeConfig returns the configuration of the etcd client, from the flags.
func storeConfig(o *options) objdb.Config {
	user, password := o.Store.Credentials()
	return objdb.Config{
		Endpoints: o.Store.Endpoints, CAFile: o.Store.CAFile, CertFile: o.Store.CertFile, KeyFile: o.Store.KeyFile,
		ServerName: o.Store.ServerName, User: user, Password: password,
	}
}
