package client

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"

	"github.com/contiv/netplugin/utils/fault"
)

// Authority is a CA that signs the certificates of netmasters.
type Authority struct {
	PEM string
	Pin string // SHA-256 of its public key in hexadecimal digits, as in the security status and in join tokens
}

// Authorities returns the CAs that the server reports for its cluster. From an unverified server they prove
// nothing.
func (c *Client) Authorities(ctx context.Context) (all []Authority, err error) {
	var answer struct {
		Authorities string `json:"authorities"`
	}
	if err := c.do(ctx, http.MethodGet, "/api/v1/ca", nil, &answer); err != nil {
		return nil, err
	}
	for block, rest := pem.Decode([]byte(answer.Authorities)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fault.New(fault.Internal, "authorities of the server: %w", err)
		}
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		all = append(all, Authority{PEM: string(pem.EncodeToMemory(block)), Pin: hex.EncodeToString(sum[:])})
	}
	return all, nil
}

// IsUnknownAuthority reports whether a request failed because no trusted CA has signed the server's certificate.
func IsUnknownAuthority(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}
