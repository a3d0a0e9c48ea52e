package objdb

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// authenticator authenticates a client again when its token has ended: with the process that gave it, with time, or
// when the password was set. The client itself asks with the token that it has. Servers before etcd 3.5 refuse that for
// the token (etcd's pull requests 12165 and 15164), and the client would be refused until it is made anew.
type authenticator struct {
	clientv3.Auth
	anonymous func() (*clientv3.Client, error) // makes a client without user or token
}

// Authenticate implements clientv3.Auth.
func (a authenticator) Authenticate(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	asking, err := a.anonymous()
	if err != nil {
		return nil, err
	}
	defer asking.Close() // its error says that its own context has ended
	return asking.Authenticate(ctx, name, password)
}
