package k8sutils

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	policies "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"
)

// Rate limits of requests to the API server: most state is watched, and an event is sent for a refused pod.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Clients are clients for the kinds of objects of Kubernetes itself, and for those of
// sigs.k8s.io/network-policy-api.
type Clients struct {
	Core     kubernetes.Interface
	Policies policies.Interface
}

// Clients returns clients that connect lazily: it succeeds while the API server is down. Certificates and the
// token file are read again when they change.
func (c Config) Clients() (all Clients, err error) {
	if c.CAFile != "" {
		if _, err := os.ReadFile(c.CAFile); err != nil {
			return all, fmt.Errorf("K8S_CA: %w", err)
		}
	}
	connection, err := c.rest()
	if err == nil {
		all.Core, err = kubernetes.NewForConfig(connection)
	}
	if err == nil {
		all.Policies, err = policies.NewForConfig(connection)
	}
	if err != nil {
		return all, fmt.Errorf("kubernetes API server %s: %w", c.APIServer, err)
	}
	return all, nil
}

func (c Config) rest() (*rest.Config, error) {
	servers, err := parseServers(c.APIServer)
	if err != nil {
		return nil, err
	}
	r := &rest.Config{
		Host:      servers[0].String(),
		UserAgent: "contiv",
		QPS:       queriesPerSecond,
		Burst:     burst,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   c.CAFile,
			CertFile: c.CertFile,
			KeyFile:  c.KeyFile,
		},
	}
	switch {
	case c.Token != "":
		r.BearerToken = c.Token
	case c.CertFile == "":
		r.BearerTokenFile = c.TokenFile
	}
	if len(servers) > 1 {
		r.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
		r.Wrap(func(next http.RoundTripper) http.RoundTripper { return &failover{servers: servers, next: next} })
	}
	return r, nil
}
