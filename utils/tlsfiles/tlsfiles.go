// Package tlsfiles makes the TLS configuration of a client from PEM files.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/contiv/netplugin/utils/fault"
)

// Files are paths of PEM files; an empty path means none.
type Files struct {
	CA        string // certificates to trust instead of the system's
	Cert, Key string // of the client
}

// Client returns a configuration with the present content of the files. The client's certificate is read again for
// each connection, so that a renewed one is used without a restart; another CA requires another call, which
// callers make for each connection. Unusable files are a fault.Invalid that names them.
func (f Files) Client() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fault.New(fault.Invalid, "CA certificates: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "CA certificates: %s holds none", f.CA)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return conf, nil
	}
	if _, err := f.certificate(nil); err != nil {
		return nil, err
	}
	conf.GetClientCertificate = f.certificate
	return conf, nil
}

func (f Files) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fault.New(fault.Invalid, "client certificate %s, key %s: %w", f.Cert, f.Key, err)
	}
	return &pair, nil
}
