package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// JoinToken is a token by which nodes or netmasters join, without its secret.
type JoinToken struct {
	ID      string    `json:"id"`
	Role    string    `json:"role"` // node or master
	Host    string    `json:"host"` // pattern of the host names that may join
	Tenants []string  `json:"tenants,omitempty"`
	Uses    int       `json:"uses"` // 0: any number
	Used    int       `json:"used"`
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// NewJoinToken describes a token to create.
type NewJoinToken struct {
	Role    string   `json:"role"`
	TTL     string   `json:"ttl"` // such as 24h
	Host    string   `json:"host"`
	Tenants []string `json:"tenants,omitempty"`
	Uses    int      `json:"uses"`
}

// Joined is a node or a netmaster that has joined.
type Joined struct {
	Host      string    `json:"host"`
	Key       string    `json:"key"` // hash; empty: the next host that joins may have the name
	Addresses []string  `json:"addresses"`
	VTEPs     []string  `json:"vteps,omitempty"`
	Tenants   []string  `json:"tenants,omitempty"`
	Token     string    `json:"token"` // id
	Joined    time.Time `json:"joined"`
	Expires   time.Time `json:"expires"` // end of the last certificate

	Knows    []string `json:"knows,omitempty"`    // of a node: pins of the CAs that it received with the certificate
	MustJoin bool     `json:"mustJoin,omitempty"` // it cannot renew the certificate, and has to join anew with a token
}

const joinTokensPath = "/api/v1/joinTokens"

// CreateJoinToken creates a token. Its text is a secret, and is returned only here.
func (c *Client) CreateJoinToken(ctx context.Context, wanted NewJoinToken) (text string, record JoinToken, err error) {
	body, err := json.Marshal(wanted)
	if err != nil {
		return "", record, fault.New(fault.Internal, "join token: %w", err)
	}
	var answer struct {
		Token  string    `json:"token"`
		Record JoinToken `json:"record"`
	}
	err = c.do(ctx, http.MethodPost, joinTokensPath, body, &answer)
	return answer.Token, answer.Record, err
}

// JoinTokens lists the tokens.
func (c *Client) JoinTokens(ctx context.Context) (all []JoinToken, err error) {
	return all, c.do(ctx, http.MethodGet, joinTokensPath, nil, &all)
}

// RemoveJoinToken revokes a token.
func (c *Client) RemoveJoinToken(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, joinTokensPath+"/"+url.PathEscape(id), nil, nil)
}

// Nodes lists the joined nodes, or netmasters.
func (c *Client) Nodes(ctx context.Context, masters bool) (all []Joined, err error) {
	return all, c.do(ctx, http.MethodGet, joinedPath(masters), nil, &all)
}

// RemoveNode removes a node, or a netmaster, so that its key is no longer valid for its name.
func (c *Client) RemoveNode(ctx context.Context, host string, masters bool) error {
	return c.do(ctx, http.MethodDelete, joinedPath(masters)+"/"+url.PathEscape(host), nil, nil)
}

// RekeyNode lets the next host with a token take the name of a node, or a netmaster.
func (c *Client) RekeyNode(ctx context.Context, host string, masters bool) error {
	return c.do(ctx, http.MethodPost, joinedPath(masters)+"/"+url.PathEscape(host)+"/rekey", nil, nil)
}

// Agent returns a response of a node's agent, such as to "/inspect/driver", through netmaster.
func (c *Client) Agent(ctx context.Context, host, path string) (answer json.RawMessage, err error) {
	return answer, c.do(ctx, http.MethodGet, joinedPath(false)+"/"+url.PathEscape(host)+"/agent"+path, nil, &answer)
}

func joinedPath(masters bool) string {
	if masters {
		return "/api/v1/masters"
	}
	return "/api/v1/nodes"
}
