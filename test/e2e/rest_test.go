package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/contiv/netplugin/netplugin/nodeapi"
	"github.com/contiv/netplugin/test/testbed"
)

// answer is a server's response.
type answer struct {
	status int
	body   string
}

// send sends one request to a node's server, from that node's network. Each has a connection of its own, so that
// none depends on earlier ones.
func send(ctx context.Context, n *testbed.Node, method, url string, body io.Reader) (answer, error) {
	return answered(ctx, &http.Client{Transport: &http.Transport{DialContext: n.DialContext, DisableKeepAlives: true}}, method, url, body)
}

// answered makes one request.
func answered(ctx context.Context, client *http.Client, method, url string, body io.Reader) (answer, error) {
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

// atSocket returns a client of a daemon at its socket, as root of its machine.
func atSocket(daemon *testbed.Process, path string) *http.Client {
	socket := fmt.Sprintf("/proc/%d/root%s", daemon.PID, path)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

// rootOf returns a client of a node's netmaster as root of its machine.
func rootOf(n *testbed.Node) *http.Client {
	return atSocket(n.Netmaster(), "/run/contiv/netmaster.sock")
}

// agentTells returns the answer of a node's agent to root of its machine.
func agentTells(ctx context.Context, n *testbed.Node, path string) (answer, error) {
	return answered(ctx, atSocket(n.Netplugin(), nodeapi.DefaultSocket), http.MethodGet, "http://localhost"+path, nil)
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

// createTenant creates a tenant at the netmaster of one node, whichever leads. It may be called until it succeeds:
// a request whose answer was lost may have created the tenant.
func createTenant(ctx context.Context, n *testbed.Node, name string) error {
	url := masterURL(n, "/api/v1/tenants/"+name+"/")
	err := post(ctx, n, url, map[string]string{"tenantName": name}, nil)
	if err == nil {
		return nil
	}
	if there, lost := send(ctx, n, http.MethodGet, url, nil); lost == nil && there.status == http.StatusOK {
		return nil
	}
	return err
}

func deleteTenant(ctx context.Context, n *testbed.Node, name string) error {
	got, err := send(ctx, n, http.MethodDelete, masterURL(n, "/api/v1/tenants/"+name+"/"), nil)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("delete tenant %s: status %d: %s", name, got.status, got.body)
	}
	return err
}

func masterURL(n *testbed.Node, path string) string { return "http://" + n.MgmtIP + ":9999" + path }
