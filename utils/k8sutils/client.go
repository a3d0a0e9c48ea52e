package k8sutils

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Limits of requests to the API server: most is followed, and an event is sent for a pod
// that is refused.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Client connects lazily: it succeeds with the API server away. Certificates
// and the token file are read again when they change.
func (c Config) Client() (kubernetes.Interface, error) {
	if c.CAFile != "" {
		if _, err := os.ReadFile(c.CAFile); err != nil {
			return nil, fmt.Errorf("K8S_CA: %w", err)
		}
	}
	client, err := kubernetes.NewForConfig(c.rest())
	if err != nil {
		return nil, fmt.Errorf("kubernetes API server %s: %w", c.APIServer, err)
	}
	return client, nil
}

func (c Config) rest() *rest.Config {
	r := &rest.Config{
		Host:      c.APIServer,
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
	return r
}
