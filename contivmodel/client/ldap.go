package client

import (
	"context"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
)

const directoryPath = accountsPath + "ldap_configuration/"

// Directory returns the configuration of the LDAP directory, without its password.
func (c *Client) Directory(ctx context.Context) (config contivmodel.LDAPConfig, err error) {
	return config, c.account(ctx, http.MethodGet, directoryPath, nil, &config)
}

// SetDirectory replaces the configuration.
func (c *Client) SetDirectory(ctx context.Context, config contivmodel.LDAPConfig) error {
	return c.account(ctx, http.MethodPut, directoryPath, config, nil)
}

// ChangeDirectory changes the fields that are not nil.
func (c *Client) ChangeDirectory(ctx context.Context, config contivmodel.LDAPConfig) error {
	return c.account(ctx, http.MethodPatch, directoryPath, config, nil)
}

// RemoveDirectory removes the directory: only local users can log in. Existing sessions remain valid until they
// end.
func (c *Client) RemoveDirectory(ctx context.Context) error {
	return c.account(ctx, http.MethodDelete, directoryPath, nil, nil)
}
