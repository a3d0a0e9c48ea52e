package k8sutils

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	policies "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"
)

// Limits of requests to the API server: most is followed, and an event is sent for a pod
// that is refused.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Clients are for the kinds of objects of Kubernetes itself, and for those of
// sigs.k8s.io/network-policy-api.
type Clients struct {
	Core     kubernetes.Interface
	Policies policies.Interface
}

// Clients connect lazily: that succeeds with the API server away. Certificates
// and the token file are read again when they change.
func (c Config) Clients() (all Clients, err error) {
	if c.CAFile != "" {
		if _, err := os.ReadFile(c.CAFile); err != nil {
			return all, fmt.Errorf("K8S_CA: %w", err)
		}
	}
	if all.Core, err = kubernetes.NewForConfig(c.rest()); err == nil {
		all.Policies, err = policies.NewForConfig(c.rest())
	}
	if err != nil {
		return all, fmt.Errorf("kubernetes API server %s: %w", c.APIServer, err)
	}
	return all, nil
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
