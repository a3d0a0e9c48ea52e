package objdb

import (
	"context"
	"crypto/tls"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

// Pings detect dead connections; gRPC sends them at most every ten seconds. Code that must notice sooner
// (Connected, a Term) has its own means.
const (
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
)

// reconnect retries an endpoint about once a second without limit. gRPC's default backoff grows to two minutes,
// which would delay the recovery after a long outage.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// dialer makes clients of the store.
type dialer struct {
	anonymous      clientv3.Config // of a client without user and endpoints
	user, password string
}

// newDialer returns the dialer of a configuration. Its clients end with ctx.
func newDialer(ctx context.Context, cfg Config) (dialer, error) {
	tlsConfig, err := cfg.tls()
	switch {
	case cfg.TLS != nil && (err != nil || tlsConfig == nil): // none yet, see renewed
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	case err != nil:
		return dialer{}, err
	}
	options := append(valueCalls{cfg.Values}.options(), grpc.WithConnectParams(reconnect), grpc.WithChainUnaryInterceptor(refusedByLearner))
	if tlsConfig != nil {
		options = append(options, grpc.WithTransportCredentials(renewed{credentials.NewTLS(tlsConfig), cfg}))
	}
	return dialer{
		anonymous: clientv3.Config{
			Context:              ctx,
			TLS:                  tlsConfig,
			DialTimeout:          cfg.DialTimeout,
			DialKeepAliveTime:    pingAfter,
			DialKeepAliveTimeout: pingTimeout,
			DialOptions:          options,
			Logger:               zap.NewNop(), // errors are returned and logged by us
		},
		user: cfg.User, password: cfg.Password,
	}, nil
}

// to returns the configuration of a client of some endpoints, with more options.
func (d dialer) to(urls []string, more ...grpc.DialOption) clientv3.Config {
	cfg := d.anonymous
	cfg.Endpoints, cfg.DialOptions = urls, slices.Concat(cfg.DialOptions, more)
	return cfg
}

// one returns the configuration of a client of one endpoint, whatever serving or route have chosen.
func (d dialer) one(url string) clientv3.Config {
	return d.to([]string{url}, grpc.WithContextDialer(dialTCP))
}

// dial makes a client, with the user if there is one; now returns its configuration.
func (d dialer) dial(now func() clientv3.Config) (*clientv3.Client, error) {
	cfg := now()
	cfg.Username, cfg.Password = d.user, d.password
	client, err := clientv3.New(cfg)
	if err == nil && d.user != "" {
		client.Auth = authenticator{client.Auth, func() (*clientv3.Client, error) { return clientv3.New(now()) }}
	}
	return client, err
}
