package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/contiv/netplugin/contivmodel"
)

const securityPath = "/api/v1/security"

// Security returns the security mode of the cluster.
func (c *Client) Security(ctx context.Context) (status contivmodel.SecurityStatus, err error) {
	return status, c.do(ctx, http.MethodGet, securityPath, nil, &status)
}

// SecurityReport returns the requests that an enforced cluster would have refused.
func (c *Client) SecurityReport(ctx context.Context) (report contivmodel.SecurityReport, err error) {
	return report, c.do(ctx, http.MethodGet, securityPath+"/report", nil, &report)
}

// ChangeSecurity takes a step, init, enforce or relax. With dryRun it only returns the result.
func (c *Client) ChangeSecurity(ctx context.Context, step string, dryRun bool) (status contivmodel.SecurityStatus, err error) {
	path := securityPath + "/" + step + "?dryRun=" + strconv.FormatBool(dryRun)
	return status, c.do(ctx, http.MethodPost, path, nil, &status)
}
