package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// joinOptions are the flags that say how the node shows who it is.
type joinOptions struct {
	tokenFile string
	dir       string
}

// wanted tells whether the node is to join, or has joined already.
func (o joinOptions) wanted() bool {
	_, err := os.Stat(filepath.Join(o.dir, membership.AuthorityFile))
	return o.tokenFile != "" || o.dir != "" && err == nil
}

// newMembership has netmasters asked over TLS once the node has joined; nil where it is
// not to join.
func newMembership(o *options, db *objdb.DB, master *cluster.Master) (*membership.Member, error) {
	if !o.join.wanted() {
		return nil, nil
	}
	member, err := membership.Open(membership.Config{
		Dir: o.join.dir, TokenFile: o.join.tokenFile, Host: o.node.HostLabel,
		Addresses: hostaddr.All(), VTEPs: []string{o.node.VTEP.String()},
		Masters: func(ctx context.Context) (addresses []string, err error) {
			all, err := db.Services(ctx, mastercfg.MasterService)
			for _, s := range all {
				addresses = append(addresses, net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port)))
			}
			return addresses, err
		},
		Log: logrus.WithField("component", "membership"),
	})
	if err != nil {
		return nil, &configError{[]error{err}}
	}
	master.Secure(member.TLS)
	return member, nil
}
