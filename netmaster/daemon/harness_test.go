package daemon

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// node is a netmaster that runs in this process.
type node struct {
	testing.TB
	daemon *Daemon
	addr   string
	url    string
	stop   context.CancelFunc
	done   chan error
}

func config(addr string) Config {
	return Config{
		Listen: addr, Control: addr, LeaderTTL: time.Minute, NodeGrace: time.Hour, Log: testkit.Quiet(),
		Store: objdb.Config{Endpoints: []string{storetest.Endpoint()}, Log: testkit.Quiet()},
		API: api.Config{ClusterMode: "cni", Log: testkit.Quiet(),
			Defaults: api.WithDefaults(contivmodel.Global{FwdMode: "routing"})},
	}
}

// run starts a netmaster, which is stopped with the test at the latest.
func run(t testing.TB, change ...func(*Config)) *node {
	t.Helper()
	addr := testkit.FreeAddress()
	cfg := config(addr)
	for _, c := range change {
		c(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &node{t, d, cfg.Listen, "http://" + cfg.Listen, stop, make(chan error, 1)}
	go func() { n.done <- d.Run(ctx) }()
	t.Cleanup(n.shut)
	testkit.Eventually(t, time.Minute, "netmaster answers", func() bool {
		code, _, err := n.try("GET", "/healthz", "")
		return err == nil && code == http.StatusOK
	})
	return n
}

// shut ends the netmaster the way SIGTERM does.
func (n *node) shut() {
	n.Helper()
	n.stop()
	select {
	case err, running := <-n.done:
		if running && err != nil {
			n.Errorf("netmaster ended with %v", err)
		}
		if running {
			close(n.done)
		}
	case <-time.After(time.Minute):
		n.Error("netmaster does not end")
	}
}

func (n *node) leads() bool { return n.daemon.front.leading() != nil }

// leader waits until one of the nodes leads.
func leader(t testing.TB, nodes ...*node) (first *node, others []*node) {
	t.Helper()
	testkit.Eventually(t, time.Minute, "a leader", func() bool {
		first, others = nil, nil
		for _, n := range nodes {
			if n.leads() && first == nil {
				first = n
			} else {
				others = append(others, n)
			}
		}
		return first != nil
	})
	return first, others
}

// try sends one request on a connection of its own.
func (n *node) try(method, path, body string, headers ...string) (int, string, error) {
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Transport{DisableKeepAlives: true}
	resp, err := client.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSuffix(string(answer), "\n"), err
}

// ok sends a request that must succeed.
func (n *node) ok(method, path, body string) string {
	n.Helper()
	code, answer, err := n.try(method, path, body)
	if err != nil || code != http.StatusOK {
		n.Fatalf("%s %s: %d %s %v", method, path, code, answer, err)
	}
	return answer
}

const webNetwork = `{"tenantName":"default","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/16"}`

func (n *node) endpoint(container string) (int, string, error) {
	return n.try("POST", mastercfg.CreateEndpointPath,
		`{"TenantName":"default","NetworkName":"web","ConfigEP":{"Host":"h1","Container":"`+container+`"}}`, "Accept", "application/problem+json")
}
