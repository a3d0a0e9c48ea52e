package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/buildinfo"
)

// MasterInfo is what a netmaster says of the cluster.
type MasterInfo struct {
	LocalIP        string   `json:"local-ip"`
	LeaderIP       string   `json:"leader-ip"` // host:port of the lock holder
	CurrentState   string   `json:"current-state"`
	NetpluginNodes []string `json:"netplugin-nodes"`
	NetmasterNodes []string `json:"netmaster-nodes"`
}

// Status is how the cluster is doing.
type Status struct {
	Leader   string         `json:"leader"` // host:port; empty: nobody leads
	Epoch    int64          `json:"epoch"`
	Revision int64          `json:"revision"`
	Version  buildinfo.Info `json:"version"`
	Masters  []Master       `json:"masters"`
	Nodes    []Node         `json:"nodes"`
	Store    Store          `json:"store"`
	Security string         `json:"security"` // open, permissive or enforced; empty: the server does not tell

	Services   *Services   `json:"services,omitempty"`   // nil: there are none
	Kubernetes *Kubernetes `json:"kubernetes,omitempty"` // nil: others start containers
}

// Master is a registered netmaster.
type Master struct {
	Address string `json:"address"`
	Role    string `json:"role"`
	Version string `json:"version"`
}

// Node is a machine that runs, or has run, an agent.
type Node struct {
	Host       string `json:"host"`
	Address    string `json:"address"`
	VTEP       string `json:"vtep"`
	Version    string `json:"version"` // of the agent
	Endpoints  int    `json:"endpoints"`
	Registered bool   `json:"registered"`         // the agent is alive
	Joined     bool   `json:"joined,omitempty"`   // it is asked over TLS, by netmasters only
	MustJoin   bool   `json:"mustJoin,omitempty"` // it cannot renew its certificate, and has to join anew with a token
}

// Store is the database of the cluster.
type Store struct {
	Endpoints []string `json:"endpoints"`
	Healthy   bool     `json:"healthy"`
}

// Services are those of tenants.
type Services struct {
	Count    int      `json:"count"`
	Unserved []string `json:"unserved"` // TENANT/NAME of those that nobody is behind
}

// Kubernetes is how it is served.
type Kubernetes struct {
	Problem  string    `json:"problem"`  // why it is not followed; empty: it is
	Waiting  int       `json:"waiting"`  // objects that have changed, and are not written down yet
	Behind   int       `json:"behind"`   // seconds since the first of them has
	Nodes    []string  `json:"nodes"`    // as Kubernetes knows them
	Services int       `json:"services"` // with addresses
	Unserved []string  `json:"unserved"` // TENANT/NAMESPACE/NAME of services that nobody is behind
	Troubles []Trouble `json:"troubles"`
	Untold   int       `json:"untold"` // how many more there are
}

// Trouble is what an object of Kubernetes asks for and does not get.
type Trouble struct {
	Object  string `json:"object"` // kind and name: pod shop/web
	Reason  string `json:"reason"` // a word that programs know, as events have it
	Message string `json:"message"`
}

// PolicyCounters returns what the rules of a policy have counted.
func (c *Client) PolicyCounters(ctx context.Context, policy string) (contivmodel.PolicyCounters, error) {
	var counters contivmodel.PolicyCounters
	if err := checkKey(policy); err != nil {
		return counters, err
	}
	err := c.do(ctx, http.MethodGet, pathOf("counters", "policys", policy), nil, &counters)
	return counters, err
}

// Verdicts returns whether an endpoint may begin a connection to a port of another.
func (c *Client) Verdicts(ctx context.Context, from, to, protocol string, port int) (contivmodel.Verdicts, error) {
	var verdicts contivmodel.Verdicts
	query := url.Values{"from": {from}, "to": {to}, "protocol": {protocol}, "port": {strconv.Itoa(port)}}
	err := c.do(ctx, http.MethodGet, pathOf("verdict")+"?"+query.Encode(), nil, &verdicts)
	return verdicts, err
}

// Status returns how the cluster is doing.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.do(ctx, http.MethodGet, "/api/v1/status", nil, &status)
	return status, err
}

// Version returns which build the server is.
func (c *Client) Version(ctx context.Context) (buildinfo.Info, error) {
	var info buildinfo.Info
	err := c.do(ctx, http.MethodGet, "/version", nil, &info)
	return info, err
}

// Info returns who leads and which nodes are known.
func (c *Client) Info(ctx context.Context) (MasterInfo, error) {
	var info MasterInfo
	err := c.do(ctx, http.MethodGet, "/info", nil, &info)
	return info, err
}
