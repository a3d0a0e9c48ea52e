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

// Security is what a netmaster needs to show who it is.
type Security struct {
	Dir            string       // of the authorities; empty: there are none, everything is plain
	Secure         bool         // a cluster of an earlier version that has no authorities gets some, and is permissive then
	Name           string       // of this netmaster in its certificates
	Names          []string     // that clients reach it by, beside localhost
	Addresses      []netip.Addr // the same, beside those of loopback
	Socket         string       // path of the socket for root; empty: none
	SocketOptional bool         // netmaster goes on without the socket, if it cannot be made
	Debug          bool         // profiles of the process are shown there

	Founding      mastercfg.SecurityMode // of a new cluster; empty: open
	PlainLoopback string                 // role in which plain HTTP is served on loopback; empty: as elsewhere

	// TokenFile has a token with which this netmaster joins where it has no authorities; empty: none.
	TokenFile string
	Join      []string // other netmasters, host:port: to ask then, before those that are registered, and to enter an embedded store with TLS
	// Vouched is what this netmaster joins with, without such a token, where it has no authorities and the
	// cluster has some; nil: nobody vouches for it. It may lead where nobody has them.
	Vouched func(context.Context) (token string, authorities *x509.CertPool, err error)
	// Anew is what an operator does so that a new cluster is founded although Vouched knows of one, all of
	// whose netmasters have lost their data.
	Anew    string
	Founder bool // of several that embed a store with TLS, the one that founds the cluster

	Own    owncert.Files    // certificates that the operator has brought
	Reread <-chan os.Signal // when they are to be read again, beside each minute; nil: never

	EncryptValues bool // while this netmaster leads the store keeps the model and the state sealed; needs Dir

	LeafLife time.Duration // of certificates; 0: pki.LeafLife
	Store    bool          // the member of the store in this process speaks TLS; set by New

	AuthProxy string // another address, of TLS only, for clients of the original's authenticating proxy; empty: none
}
