package k8sutils

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// Limits of requests to the API server: one per pod start, and a node starts
// many at once after a reboot.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Client connects lazily: it succeeds with the API server away. Certificates
// and the token file are read again when they change.
func (c Config) Client() (kubernetes.Interface, error) { return c.client(requestTimeout) }

// Watcher is a client whose requests may last, as those of informers do.
func (c Config) Watcher() (kubernetes.Interface, error) { return c.client(0) }

func (c Config) client(limit time.Duration) (kubernetes.Interface, error) {
	if c.CAFile != "" {
		if _, err := os.ReadFile(c.CAFile); err != nil {
			return nil, fmt.Errorf("K8S_CA: %w", err)
		}
	}
	client, err := kubernetes.NewForConfig(c.rest(limit))
	if err != nil {
		return nil, fmt.Errorf("kubernetes API server %s: %w", c.APIServer, err)
	}
	return client, nil
}

func (c Config) rest(limit time.Duration) *rest.Config {
	r := &rest.Config{
		Host:      c.APIServer,
		UserAgent: "contiv",
		Timeout:   limit,
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
	return r
}
