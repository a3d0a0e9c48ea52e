package client

import (
	"context"
	"net/http"

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
