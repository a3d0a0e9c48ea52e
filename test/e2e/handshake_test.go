package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/contiv/netplugin/test/testbed"
)

// tlsPorts are those at which a node of a secure bed speaks TLS: netmaster's, the agent's, and those of the member
// of the store for its clients and for the other members.
var tlsPorts = []string{"9999", "9090", "2379", "2380"}

// tlsServers are the addresses of all of them.
func tlsServers(bed *testbed.Bed) (all []string) {
	for _, n := range bed.Nodes {
		for _, port := range tlsPorts {
			all = append(all, net.JoinHostPort(n.MgmtIP, port))
		}
	}
	return all
}

// certificateOf returns the certificate that a server presents to a client without one, also if the server refuses
// that client then.
func (s story) certificateOf(address string) (shown *x509.Certificate, err error) {
	conn, err := s.bed.Nodes[0].DialContext(s.ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	secured := tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true, // its identity does not matter here
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0]
			return nil
		},
	})
	if err := secured.HandshakeContext(s.ctx); shown == nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return shown, nil
}
