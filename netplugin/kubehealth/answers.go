package kubehealth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// proxyMode is the name of this proxy, as Kubernetes reports it.
const proxyMode = "contiv"

// trouble returns why the node does not serve services; nil if it does.
func (s *Server) trouble() error {
	if err := s.node.Ready(); err != nil && !s.asBefore(err) {
		return err
	}
	return nil
}

// service returns the handler of a service's health port: status 200 if a backend is on this node and ready.
func (s *Server) service(port uint16) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		of, known := s.node.KubeHealth().Ports[port]
		if !known {
			http.Error(w, fmt.Sprintf("no service has health port %d any more", port), http.StatusServiceUnavailable)
			return
		}
		healthy := s.trouble() == nil
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(of.Backends))
		answer(w, healthy && of.Backends > 0, map[string]any{
			"service":        map[string]string{"namespace": of.Namespace, "name": of.Name},
			"localEndpoints": of.Backends, "serviceProxyHealthy": healthy,
		})
	})
}

// proxy returns the handler for the node: whether services are served, and whether new clients are welcome.
func (s *Server) proxy() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, eligible bool) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			health, trouble := s.node.KubeHealth(), s.trouble()
			body := map[string]any{"lastUpdated": health.Updated.UTC().String(), "currentTime": time.Now().UTC().String()}
			if eligible {
				body["nodeEligible"] = !health.Leaving
			}
			if trouble != nil {
				// The rest of the error is for operators: it may name objects of a tenant, and pods of all tenants
				// can query here.
				body["reason"], _, _ = strings.Cut(trouble.Error(), ": ")
			}
			answer(w, trouble == nil && !(eligible && health.Leaving), body)
		})
	}
	handle("/healthz", true)
	handle("/livez", false)
	return mux
}

func mode() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, proxyMode) })
	return mux
}

// answer writes a body with status 200 or, if not good, 503.
func answer(w http.ResponseWriter, good bool, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
