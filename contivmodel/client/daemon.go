package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/buildinfo"
)

// MasterInfo is what a netmaster reports about the cluster.
type MasterInfo struct {
	LocalIP        string   `json:"local-ip"`
	LeaderIP       string   `json:"leader-ip"` // host:port of the lock holder
	CurrentState   string   `json:"current-state"`
	NetpluginNodes []string `json:"netplugin-nodes"`
	NetmasterNodes []string `json:"netmaster-nodes"`
}

// PolicyCounters returns the counters of the rules of a policy.
func (c *Client) PolicyCounters(ctx context.Context, policy string) (contivmodel.PolicyCounters, error) {
	var counters contivmodel.PolicyCounters
	if err := checkKey(policy); err != nil {
		return counters, err
	}
	err := c.do(ctx, http.MethodGet, pathOf("counters", "policys", policy), nil, &counters)
	return counters, err
}

// Verdicts returns whether an endpoint may open a connection to a port of another.
func (c *Client) Verdicts(ctx context.Context, from, to, protocol string, port int) (contivmodel.Verdicts, error) {
	var verdicts contivmodel.Verdicts
	query := url.Values{"from": {from}, "to": {to}, "protocol": {protocol}, "port": {strconv.Itoa(port)}}
	err := c.do(ctx, http.MethodGet, pathOf("verdict")+"?"+query.Encode(), nil, &verdicts)
	return verdicts, err
}

// Trace returns the path of a packet that an endpoint might send; source is a claimed source address, or empty.
func (c *Client) Trace(ctx context.Context, from, to, protocol string, port int, source string) (contivmodel.Trace, error) {
	var trace contivmodel.Trace
	query := url.Values{"from": {from}, "to": {to}, "protocol": {protocol}, "port": {strconv.Itoa(port)}, "source": {source}}
	err := c.do(ctx, http.MethodGet, pathOf("trace")+"?"+query.Encode(), nil, &trace)
	return trace, err
}

// Status returns the health of the cluster.
func (c *Client) Status(ctx context.Context) (contivmodel.Status, error) {
	var status contivmodel.Status
	err := c.do(ctx, http.MethodGet, "/api/v1/status", nil, &status)
	return status, err
}

// Version returns the build of the server.
func (c *Client) Version(ctx context.Context) (buildinfo.Info, error) {
	var info buildinfo.Info
	err := c.do(ctx, http.MethodGet, "/version", nil, &info)
	return info, err
}

// Info returns the leader and the known nodes.
func (c *Client) Info(ctx context.Context) (MasterInfo, error) {
	var info MasterInfo
	err := c.do(ctx, http.MethodGet, "/info", nil, &info)
	return info, err
}
