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

// OpenID returns the data with which browsers are redirected to the provider.
func (c *Client) OpenID(ctx context.Context) (at contivmodel.OpenIDClient, err error) {
	return at, c.account(ctx, http.MethodGet, openIDPath, nil, &at)
}

// LoginOpenID requests a token with the data of the redirected browser.
func (c *Client) LoginOpenID(ctx context.Context, proof contivmodel.OpenIDProof) (token string, err error) {
	var answer struct {
		Token string `json:"token"`
	}
	if err = c.account(ctx, http.MethodPost, openIDPath+"login/", proof, &answer); err == nil && answer.Token == "" {
		err = fault.New(fault.Internal, "login: the server sent no token")
	}
	return answer.Token, err
}

// Provider returns the configuration of the provider, without its secret.
func (c *Client) Provider(ctx context.Context) (config contivmodel.OpenIDConfig, err error) {
	return config, c.account(ctx, http.MethodGet, providerConfigPath, nil, &config)
}

// SetProvider replaces the configuration.
func (c *Client) SetProvider(ctx context.Context, config contivmodel.OpenIDConfig) error {
	return c.account(ctx, http.MethodPut, providerConfigPath, config, nil)
}

// ChangeProvider changes the fields that are not nil.
func (c *Client) ChangeProvider(ctx context.Context, config contivmodel.OpenIDConfig) error {
	return c.account(ctx, http.MethodPatch, providerConfigPath, config, nil)
}

// RemoveProvider removes the provider. Existing sessions remain valid until they end.
func (c *Client) RemoveProvider(ctx context.Context) error {
	return c.account(ctx, http.MethodDelete, providerConfigPath, nil, nil)
}
