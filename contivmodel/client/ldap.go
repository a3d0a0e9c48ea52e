package client

import (
	"context"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
)

const directoryPath = accountsPath + "ldap_configuration/"

// Directory tells how the LDAP directory is reached, but for its password.
func (c *Client) Directory(ctx context.Context) (config contivmodel.LDAPConfig, err error) {
	return config, c.account(ctx, http.MethodGet, directoryPath, nil, &config)
}

// SetDirectory says anew how it is reached.
func (c *Client) SetDirectory(ctx context.Context, config contivmodel.LDAPConfig) error {
	return c.account(ctx, http.MethodPut, directoryPath, config, nil)
}

// ChangeDirectory changes what is not nil.
func (c *Client) ChangeDirectory(ctx context.Context, config contivmodel.LDAPConfig) error {
	return c.account(ctx, http.MethodPatch, directoryPath, config, nil)
}

// RemoveDirectory lets local users log in only. Sessions go on until they end.
func (c *Client) RemoveDirectory(ctx context.Context) error {
	return c.account(ctx, http.MethodDelete, directoryPath, nil, nil)
}
