package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// The embedded member of the store, and its clients, have certificates of the store's CA, which only netmasters
// have. They are files beside the CAs, because etcd reads them at each handshake. The key stays the same, so
// that it always matches the certificate. An operator's etcdctl uses them, too.
const (
	storeCertFile = "store.crt"
	storeKeyFile  = "store.key"
)

// storeTLS makes the certificate of the member, which is also a client of the other members, and returns the TLS configuration for
// this netmaster's connections to it.
func (p *certificates) storeTLS(by *pki.Authority, now time.Time) (*tls.Config, error) {
	key, err := pki.OpenKey(filepath.Join(p.cfg.Dir, storeKeyFile))
	if err != nil {
		return nil, fmt.Errorf("%w (move this file away, and netmaster makes another key)", err)
	}
	leaf := p.leaf(key, x509.ExtKeyUsageClientAuth)
	leaf.Serves = true
	p.serving(&leaf)
	cert, err := issue(by, leaf, key, now)
	if err != nil {
		return nil, err
	}
	if err := durable.Write(filepath.Join(p.cfg.Dir, storeCertFile), pki.EncodeCertificates(cert.Leaf)); err != nil {
		return nil, err
	}
	return dialing(by, cert), nil
}

// store returns the TLS configuration for connections to this netmaster's own member of the store.
func (p *certificates) store() (*tls.Config, error) {
	if h := p.current.Load(); h != nil && h.store != nil {
		return h.store, nil
	}
	return nil, fault.New(fault.Unavailable, "no certificate for the store yet")
}

// memberWithCertificates returns the configuration of a member with the files of its certificates.
func (p *certificates) memberWithCertificates(member embedded.Config) embedded.Config {
	member.CertFile, member.KeyFile = filepath.Join(p.cfg.Dir, storeCertFile), filepath.Join(p.cfg.Dir, storeKeyFile)
	member.CAFile = filepath.Join(p.cfg.Dir, string(pki.Store)+".crt")
	return member
}
