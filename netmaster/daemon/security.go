package daemon

import (
	"context"
	"crypto/x509"
	"net/netip"
	"os"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/owncert"
)

// Security is the configuration of a netmaster's security.
type Security struct {
	Dir            string       // of the CAs; empty: there are none, everything is plain
	Secure         bool         // a cluster of an earlier version that has no CAs gets some, and is permissive then
	Name           string       // of this netmaster in its certificates
	Names          []string     // by which clients reach it, beside localhost
	Addresses      []netip.Addr // likewise, beside loopback addresses
	Socket         string       // path of the socket for root; empty: none
	SocketOptional bool         // netmaster runs without the socket, if it cannot be made
	Debug          bool         // profiles of the process are served there

	Founding      mastercfg.SecurityMode // of a new cluster; empty: open
	PlainLoopback string                 // role in which plain HTTP is served on loopback; empty: as elsewhere

	// TokenFile contains a token with which this netmaster joins while it has no CAs; empty: none.
	TokenFile string
	Join      []string // other netmasters, host:port, through which it joins before the registered ones, and an embedded store with TLS
	// Vouched returns another proof of identity to join with, without such a token, while this netmaster has no
	// CAs and the cluster has some; nil: there is none. It may lead while no netmaster has CAs.
	Vouched func(context.Context) (token string, authorities *x509.CertPool, err error)
	// Anew is the instruction for an operator to found a new cluster although Vouched reports one, whose
	// netmasters have all lost their data.
	Anew    string
	Founder bool // of several that embed a store with TLS, the one that founds the cluster

	Own    owncert.Files    // certificates that the operator supplies
	Reread <-chan os.Signal // a signal to reload them at once, not only every minute; nil: never

	EncryptValues bool // while this netmaster leads the model and the state are stored encrypted; needs Dir

	LeafLife time.Duration // of certificates; 0: pki.LeafLife
	Store    bool          // the member of the store in this process uses TLS; set by New

	AuthProxy string // another address, TLS only, for clients of the original's authenticating proxy; empty: none
}
