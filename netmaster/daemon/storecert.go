package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// The embedded member of the store, and who speaks with it, have certificates of the authority
// of the store, which netmasters only have. They are in files beside the authorities, for etcd
// reads them at each handshake; the key stays the same, so that it fits the certificate at any moment.
// An operator's etcdctl uses them, too.
const (
	storeCertFile = "store.crt"
	storeKeyFile  = "store.key"
)

// forStore makes the certificate of the member, which is a client of the others as well, and
// returns how this netmaster reaches it.
func (p *certificates) forStore(by *pki.Authority, now time.Time) (*tls.Config, error) {
	key, err := pki.OpenKey(filepath.Join(p.cfg.Dir, storeKeyFile))
	if err != nil {
		return nil, err
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

// store is how the own member of the store is reached, as it is now.
func (p *certificates) store() (*tls.Config, error) {
	if h := p.current.Load(); h != nil && h.store != nil {
		return h.store, nil
	}
	return nil, fault.New(fault.Unavailable, "no certificate for the store yet")
}

// armed is the configuration of a member with the files of its certificates.
func (p *certificates) armed(member embedded.Config) embedded.Config {
	member.CertFile, member.KeyFile = filepath.Join(p.cfg.Dir, storeCertFile), filepath.Join(p.cfg.Dir, storeKeyFile)
	member.CAFile = filepath.Join(p.cfg.Dir, string(pki.Store)+".crt")
	return member
}
