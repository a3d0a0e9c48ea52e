package objdb

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// renewed are credentials that read the TLS files of a configuration for each new connection, so that neither a
// new CA nor a new certificate needs a restart. Existing connections are not affected. While a file cannot be
// read, no connection is made; the next attempt reads it again.
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
