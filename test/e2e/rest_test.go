package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/contiv/netplugin/test/testbed"
)

// answer is what a server said to a request.
type answer struct {
	status int
	body   string
}

// send makes one request of a node's server, from that node's network. Each
// has a connection of its own, so that nothing depends on those before it.
func send(ctx context.Context, n *testbed.Node, method, url string, body io.Reader) (answer, error) {
	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/problem+json, application/json")
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return answer{res.StatusCode, string(text)}, err
}

// post sends a value and decodes the answer into another, unless that is nil.
func post(ctx context.Context, n *testbed.Node, url string, value, into any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	got, err := send(ctx, n, http.MethodPost, url, bytes.NewReader(data))
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, got.status, got.body)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal([]byte(got.body), into)
}

// createTenant asks the netmaster of one node, whoever leads.
func createTenant(ctx context.Context, n *testbed.Node, name string) error {
	return post(ctx, n, masterURL(n, "/api/v1/tenants/"+name+"/"), map[string]string{"tenantName": name}, nil)
}

func deleteTenant(ctx context.Context, n *testbed.Node, name string) error {
	got, err := send(ctx, n, http.MethodDelete, masterURL(n, "/api/v1/tenants/"+name+"/"), nil)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("delete tenant %s: status %d: %s", name, got.status, got.body)
	}
	return err
}

func masterURL(n *testbed.Node, path string) string { return "http://" + n.MgmtIP + ":9999" + path }
