package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"

	"github.com/contiv/netplugin/utils/fault"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	maxPEM           = 64 << 10 // bytes of a file or of a response
)

// EncodeCertificates returns certificates as PEM.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw}))
	}
	return out.Bytes()
}

// ParseCertificates parses PEM with one or more certificates and nothing else. Errors are fault.Invalid.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, fault.New(fault.Invalid, "certificates: %d bytes, at most %d are read", len(text), maxPEM)
	}
	var found []*x509.Certificate
	for rest := bytes.TrimSpace(text); len(rest) > 0; {
		block, after := pem.Decode(rest)
		if block == nil || block.Type != certificateBlock || !bytes.HasPrefix(rest, []byte("-----BEGIN ")) {
			return nil, fault.New(fault.Invalid, "certificates: not in PEM form, or cut off")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fault.New(fault.Invalid, "certificates: %w", err)
		}
		found, rest = append(found, c), bytes.TrimSpace(after)
	}
	if len(found) == 0 {
		return nil, fault.New(fault.Invalid, "certificates: there is none")
	}
	return found, nil
}

// Pool returns a pool of the certificates that ParseCertificates reads.
func Pool(text []byte) (*x509.CertPool, error) {
	certs, err := ParseCertificates(text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

// EncodeKey returns a private key as PEM.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// parseKeys parses several keys. Errors are those of parseKey.
func parseKeys(text []byte) (keys []*ecdsa.PrivateKey, err error) {
	for rest := bytes.TrimSpace(text); len(rest) > 0 || len(keys) == 0; {
		block, after := pem.Decode(rest)
		if block == nil {
			return nil, fault.New(fault.Invalid, "private key: not in PEM form, or cut off")
		}
		key, err := parseKey(pem.EncodeToMemory(block))
		if err != nil {
			return nil, err
		}
		keys, rest = append(keys, key), bytes.TrimSpace(after)
	}
	return keys, nil
}

// parseKey parses the result of EncodeKey. Errors are fault.Invalid and do not show the content.
func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyBlock || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fault.New(fault.Invalid, "private key: not in PEM form, or cut off")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return nil, fault.New(fault.Invalid, "private key: want an ECDSA key on curve P-256")
	}
	return key, nil
}
