package client

import (
	"context"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	openIDPath         = accountsPath + "openid/"
	providerConfigPath = accountsPath + "openid_configuration/"
)

// OpenID asks where browsers are sent.
func (c *Client) OpenID(ctx context.Context) (at contivmodel.OpenIDClient, err error) {
	return at, c.account(ctx, http.MethodGet, openIDPath, nil, &at)
}

// LoginOpenID asks for a token with what a browser has come back with.
func (c *Client) LoginOpenID(ctx context.Context, proof contivmodel.OpenIDProof) (token string, err error) {
	var answer struct {
		Token string `json:"token"`
	}
	if err = c.account(ctx, http.MethodPost, openIDPath+"login/", proof, &answer); err == nil && answer.Token == "" {
		err = fault.New(fault.Internal, "login: the server sent no token")
	}
	return answer.Token, err
}

// Provider tells how the provider is reached, but for its secret.
func (c *Client) Provider(ctx context.Context) (config contivmodel.OpenIDConfig, err error) {
	return config, c.account(ctx, http.MethodGet, providerConfigPath, nil, &config)
}

// SetProvider says anew how it is reached.
func (c *Client) SetProvider(ctx context.Context, config contivmodel.OpenIDConfig) error {
	return c.account(ctx, http.MethodPut, providerConfigPath, config, nil)
}

// ChangeProvider changes what is not nil.
func (c *Client) ChangeProvider(ctx context.Context, config contivmodel.OpenIDConfig) error {
	return c.account(ctx, http.MethodPatch, providerConfigPath, config, nil)
}

// RemoveProvider has nobody ask it any more. Sessions go on until they end.
func (c *Client) RemoveProvider(ctx context.Context) error {
	return c.account(ctx, http.MethodDelete, providerConfigPath, nil, nil)
}
