package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/ports"
)

// nodeTimeout is how long a node may take to answer.
const nodeTimeout = 5 * time.Second

// Maximum size of an answer in bytes, by the request: it limits the leader's memory for one node.
const (
	longAnswer    = 64 << 20 // a full BGP table, or an agent's inspection
	countedAnswer = 16 << 20 // counters of 15,000 rules are 4 MiB; metrics
	shortAnswer   = 1 << 20

	answerHeader = 16 << 10 // its header, whose first line is in errors
)

// nodes calls agents: rarely, and never from a plan.
type nodes struct {
	port     int
	secured  func(host, key string) *tls.Config // see Config
	keyOf    func(host string) (string, error)  // hash of the key with which a host has joined
	reading  ratelimit.Semaphore                // answers that need much more memory when they are decoded
	tallying ratelimit.Semaphore                // requests for counters to all nodes
}

// agentAt is the address of a host's agent.
type agentAt struct {
	host, address string
	port          int  // of its REST server; 0: the default
	joined        bool // called over TLS
}

func newNodes(config Config, view func(func(ledger.Reader) error) error) nodes {
	keyOf := func(host string) (key string, err error) {
		err = view(func(r ledger.Reader) error {
			joined, err := ledger.Read[mastercfg.Joined](r, mastercfg.NodePrefix+host)
			key = joined.Key
			return err
		})
		if key == "" && (err == nil || fault.Is(err, fault.NotFound)) {
			err = fault.New(fault.Unavailable, "node %s was removed or rekeyed, and is not asked until it joins again", host)
		}
		return key, err
	}
	return nodes{cmp.Or(config.AgentPort, ports.Agent), config.NodeTLS, keyOf, make(ratelimit.Semaphore, 1), make(ratelimit.Semaphore, 1)}
}

func (n nodes) client(at agentAt) (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: answerHeader}
	if at.joined {
		key, err := n.keyOf(at.host)
		if err != nil {
			return nil, err
		}
		if n.secured != nil {
			transport.TLSClientConfig = n.secured(at.host, key)
		}
		if transport.TLSClientConfig == nil {
			return nil, fault.New(fault.Unavailable, "node %s has joined and is asked over TLS only: this netmaster has no certificate for that", at.host)
		}
	}
	return &http.Client{
		Timeout: nodeTimeout, Transport: transport,
		// A node must not redirect netmaster to others.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// get asks a node's agent and returns the body of a 200, of at most so many bytes. Errors:
// fault.Unavailable if the node does not answer or returns 503 or 401, fault.NotFound for a 404, fault.Invalid
// for a 400, fault.Internal for everything else.
func (n nodes) get(ctx context.Context, at agentAt, path string, most int64) ([]byte, error) {
	host, scheme := net.JoinHostPort(at.address, strconv.Itoa(cmp.Or(at.port, n.port))), mastercfg.Scheme
	if at.joined {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+host+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", host, err)
	}
	client, err := n.client(at)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "node %s does not answer: %w", host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "node %s: answer of GET %s: %w", host, path, err)
	}
	if int64(len(body)) > most {
		return nil, fault.New(fault.Internal, "node %s: the answer of GET %s has more than %d bytes", host, path, most)
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	kind := fault.Internal
	switch resp.StatusCode {
	case http.StatusNotFound:
		kind = fault.NotFound
	case http.StatusBadRequest:
		kind = fault.Invalid
	case http.StatusServiceUnavailable, http.StatusUnauthorized: // a node that has not joined yet trusts no netmaster
		kind = fault.Unavailable
	}
	text, _, _ := bytes.Cut(body, []byte("\n"))
	return nil, fault.New(kind, "node %s: %.100s: %.4000s", host, resp.Status, text) // into logs, and answers to others
}

// Agents returns the nodes with registered agents.
func (a *API) Agents(ctx context.Context) (hosts []string, err error) {
	all, err := a.store.Services(ctx, mastercfg.AgentService)
	for _, s := range all {
		hosts = append(hosts, s.Hostname)
	}
	return hosts, err
}

// ReadyAgents returns the nodes whose agents can attach pods.
func (a *API) ReadyAgents(ctx context.Context) (hosts []string, err error) {
	all, err := a.store.Services(ctx, mastercfg.AgentService)
	for _, s := range all {
		if s.Ready {
			hosts = append(hosts, s.Hostname)
		}
	}
	return hosts, err
}

// KnowAnyPod returns, for the nodes with registered agents,
// whether the agent supports rules of policies about any pod.
func (a *API) KnowAnyPod(ctx context.Context) (map[string]bool, error) {
	all, err := a.store.Services(ctx, mastercfg.AgentService)
	knows := map[string]bool{}
	for _, s := range all {
		knows[s.Hostname] = knows[s.Hostname] || s.AnyPod // one of its registrations has it
	}
	return knows, err
}

// EnforcedPolicies returns the reports of nodes about the policies that their switches enforce, by node. Nodes
// without a report, or with an unreadable one, are missing.
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

// agentOf returns the address at which a host is registered with a service.
func (a *API) agentOf(ctx context.Context, service, host string) (at agentAt, registered bool, err error) {
	all, err := a.store.Services(ctx, service)
	for _, s := range all {
		if s.Hostname == host {
			return registeredAt(s), true, nil
		}
	}
	return agentAt{}, false, err
}

func registeredAt(s objdb.Service) agentAt {
	return agentAt{s.Hostname, s.HostAddr, s.REST, s.Authorities != ""}
}

// agent forwards an inspection to an agent, which after joining answers netmasters only.
func (a *API) agent(r *http.Request) (rest.Reply, error) {
	host, what := mux.Vars(r)["host"], mux.Vars(r)["what"]
	at, registered, err := a.agentOf(r.Context(), mastercfg.AgentService, host)
	if err == nil && !registered {
		err = fault.New(fault.NotFound, "node %s is not registered", host)
	}
	if err != nil {
		return rest.Reply{}, err
	}
	said, err := a.nodes.get(r.Context(), at, "/"+what, longestAnswer(what))
	text := strings.TrimSuffix(string(said), "\n")
	switch {
	case err != nil:
		return rest.Reply{}, err
	case what == "metrics":
		return rest.Reply{Body: rest.Text(text)}, nil
	case what == "readyz":
		return rest.Reply{Body: text}, nil
	}
	return rest.Reply{Body: json.RawMessage(said)}, nil
}

// longestAnswer returns how long an agent's answer to an inspection may be.
func longestAnswer(what string) int64 {
	switch what {
	case "readyz":
		return shortAnswer
	case "metrics":
		return countedAnswer
	}
	return longAnswer
}
