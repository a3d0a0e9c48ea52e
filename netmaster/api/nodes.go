package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	// DefaultNodePort is where agents answer questions about themselves.
	DefaultNodePort = 9090
	// nodeTimeout is how long a node may take to answer.
	nodeTimeout = 5 * time.Second
	// maxNodeAnswer bounds an answer; a full BGP table is the longest.
	maxNodeAnswer = 64 << 20
)

// nodes are the agents, as netmaster calls them: rarely, and never from a plan.
type nodes struct {
	port   int
	client *http.Client
}

func newNodes(port int) nodes {
	if port == 0 {
		port = DefaultNodePort
	}
	return nodes{port, &http.Client{
		Timeout: nodeTimeout, Transport: &http.Transport{DisableKeepAlives: true},
		// No node may send netmaster elsewhere, least of all to delete something.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call sends a request without a body and returns what a 200 brings. Errors:
// fault.Unavailable when the node does not answer, fault.NotFound for a 404,
// fault.Internal for everything else.
func (n nodes) call(ctx context.Context, method, address, path string) ([]byte, error) {
	host := net.JoinHostPort(address, strconv.Itoa(n.port))
	req, err := http.NewRequestWithContext(ctx, method, mastercfg.Scheme+"://"+host+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", host, err)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "node %s does not answer: %w", host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxNodeAnswer))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "node %s: answer of %s %s: %w", host, method, path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	kind := fault.Internal
	if resp.StatusCode == http.StatusNotFound {
		kind = fault.NotFound
	}
	text, _, _ := bytes.Cut(body, []byte("\n"))
	return nil, fault.New(kind, "node %s: %s: %s", host, resp.Status, text)
}

// ReadyAgents names the nodes whose agents can attach pods.
func (a *API) ReadyAgents(ctx context.Context) (hosts []string, err error) {
	all, err := a.store.Services(ctx, mastercfg.AgentService)
	for _, s := range all {
		if s.Ready {
			hosts = append(hosts, s.Hostname)
		}
	}
	return hosts, err
}

// EnforcedPolicies is what nodes say about policies and their switches, by node. Of nodes that have said nothing, or what is not
// understood, nothing is known.
func (a *API) EnforcedPolicies(ctx context.Context) (map[string]mastercfg.K8sEnforced, error) {
	kvs, _, err := a.store.List(ctx, mastercfg.K8sEnforcedPrefix)
	if err != nil {
		return nil, err
	}
	all := map[string]mastercfg.K8sEnforced{}
	for _, kv := range kvs {
		var said mastercfg.K8sEnforced
		if json.Unmarshal(kv.Value, &said) == nil {
			all[strings.TrimPrefix(kv.Key, mastercfg.K8sEnforcedPrefix)] = said
		}
	}
	return all, nil
}

// addressOf finds where a host is registered with a service.
func (a *API) addressOf(ctx context.Context, service, host string) (address string, registered bool, err error) {
	all, err := a.store.Services(ctx, service)
	for _, s := range all {
		if s.Hostname == host {
			return s.HostAddr, true, nil
		}
	}
	return "", false, err
}
