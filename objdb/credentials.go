package objdb

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// renewed are credentials with what the TLS files of a configuration hold when a
// connection is made, so that neither a new authority nor a new certificate needs a
// restart. Connections that are there keep what they began with. While a file cannot be
// read, no connection is made; the next try reads it again.
type renewed struct {
	credentials.TransportCredentials // of the files as they were at the start
	config                           Config
}

// ClientHandshake implements credentials.TransportCredentials.
func (r renewed) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conf, err := r.config.tls()
	if err != nil {
		return nil, nil, err
	}
	if conf == nil { // see Config.TLS
		return insecure.NewCredentials().ClientHandshake(ctx, authority, conn)
	}
	return credentials.NewTLS(conf).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (r renewed) Clone() credentials.TransportCredentials {
	return renewed{r.TransportCredentials.Clone(), r.config}
}
