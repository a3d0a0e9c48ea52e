package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netplugin/nodeapi"
	"github.com/contiv/netplugin/test/testbed"
)

var hostileChapters = []chapter{
	{"a page of another site changes nothing, wherever it sends its request", foreignPages},
	{"clients that read their answers byte by byte do not keep others waiting", slowReaders},
}

func foreignPages(s story) {
	s.tenant("blue")
	leader := s.leader()
	before, err := s.bed.Keys(s.ctx, "/contiv.io/")
	s.must(err)
	for _, n := range []*testbed.Node{leader, s.otherThan(leader)} {
		for _, r := range []struct{ method, url, body string }{
			{http.MethodPost, masterURL(n, "/api/v1/tenants/red/"), `{"tenantName":"red"}`},
			{http.MethodDelete, masterURL(n, "/api/v1/tenants/blue/"), ""},
			{http.MethodPost, masterURL(n, create), `{"TenantName":"blue"}`},
			{http.MethodDelete, "http://" + n.MgmtIP + ":9090/debug/reclaimEndpoint/x", ""},
		} {
			got, err := request{method: r.method, body: r.body}.from(s.ctx, n, r.url, "http://evil.example")
			if err != nil {
				s.Errorf("%s: %s %s: %v", n.Name, r.method, r.url, err)
			} else if got.status != http.StatusForbidden {
				s.Errorf("%s: %s %s of a foreign page: status %d: %s", n.Name, r.method, r.url, got.status, got.body)
			}
		}
	}
	after, err := s.bed.Keys(s.ctx, "/contiv.io/")
	s.must(err)
	if before != after {
		s.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// from sends a request as a browser does for a page of some site: as text, so that no preflight is needed.
func (r request) from(ctx context.Context, n *testbed.Node, url, origin string) (answer, error) {
	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, r.method, url, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Origin", origin)
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text)}, err
}

// slowTime is how long answers are read, at a byte a second; meanwhile others send slowAsks requests.
const (
	slowTime = 6 * time.Second
	slowAsks = 12
)

func slowReaders(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	s.pod(0, "pod", "blue", "front", "")
	longest := s.besideSlow("late")
	for try := 1; try < tries && longest > slowTime; try++ {
		longest = s.besideSlow(fmt.Sprintf("late%d-", try))
	}
	if longest > slowTime { // they are read for as long
		s.Errorf("beside slow readers: after %s", longest)
	}
}

// besideSlow returns the longest wait of other clients while some read slowly. Names of pods begin with pods.
func (s story) besideSlow(pods string) (longest time.Duration) {
	s.Helper()
	n := s.leader()
	agent := fmt.Sprintf("/proc/%d/root%s", n.Netplugin().PID, nodeapi.DefaultSocket)
	urls := map[string][]string{ // by address
		n.MgmtIP + ":9999": {"/version", "/info", "/metrics", "/readyz", "/openapi.json", "/debug/ofnet", "/api/v1/inspect/tenants/blue/", "/api/v1/inspect/networks/blue:front/"},
		agent:              {"/version", "/metrics", "/readyz", "/svcstats", "/inspect/driver", "/inspect/counters", "/inspect/drops", "/inspect/bgp", "/inspect/nameserver", "/inspect/trace", "/inspect/tunnels"},
	}
	for _, kind := range contivmodel.Kinds() {
		urls[n.MgmtIP+":9999"] = append(urls[n.MgmtIP+":9999"], "/api/v1/"+kind.Segment+"/")
	}
	var reading errgroup.Group
	for address, paths := range urls {
		for _, path := range paths {
			network := "tcp"
			if address == agent {
				network = "unix"
			}
			conn, err := n.DialContext(s.ctx, network, address)
			s.must(err)
			defer conn.Close()
			s.must(conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(1024))
			_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: node\r\n\r\n", path)
			s.must(err)
			reading.Go(func() error { return readSlowly(conn, path) })
		}
	}
	for i := range slowAsks {
		asked := time.Now()
		got, err := send(s.ctx, n, http.MethodGet, masterURL(n, "/api/v1/tenants/"), nil)
		s.must(err)
		took := time.Since(asked)
		if longest = max(longest, took); got.status != http.StatusOK {
			s.Errorf("beside slow readers: status %d after %s", got.status, took)
		}
		late := s.sandbox(1, fmt.Sprint(pods, i), "blue", "front", "")
		s.must(late.Attach(s.ctx))
		<-time.After(time.Until(asked.Add(slowTime / slowAsks))) // all the time that they read
	}
	s.must(reading.Wait())
	return longest
}

// readSlowly expects an answer, and reads it a byte a second.
func readSlowly(conn net.Conn, path string) error {
	for began := time.Now(); time.Since(began) < slowTime; <-time.After(time.Second) { // the pace is under test
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
