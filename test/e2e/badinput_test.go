package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
)

var badInputChapters = []chapter{
	{"what cannot be is refused by leader and followers alike, with object and cause, and changes nothing", badInput},
	{"clients that say nothing do not keep others from being served", silentClients},
}

// request is an invalid request, and its expected refusal.
type request struct {
	method, path, body string
	status             int
	says               []string // object, value or cause
}

const (
	create = "/plugin/createEndpoint"
	nets   = "/api/v1/networks/"
	groups = "/api/v1/endpointGroups/"
	rules  = "/api/v1/rules/"
)

var refused = []request{
	// No JSON, or JSON of another type.
	{"POST", "/api/v1/tenants/x/", `{"tenantName":`, 400, []string{"JSON"}},
	{"POST", "/api/v1/tenants/x/", `{"tenantName":7}`, 400, []string{"tenantName", "number"}},
	{"POST", "/api/v1/tenants/x/", `["x"]`, 400, []string{"tenant", "array"}},
	{"POST", "/api/v1/tenants/x/", "", 400, []string{"JSON"}},
	{"POST", nets + "blue:x/", `{"pktTag":"seven"}`, 400, []string{"pktTag", "string"}},
	{"POST", create, `{"TenantName":{}}`, 400, []string{"TenantName", "object"}},
	// Too long.
	{"POST", "/api/v1/tenants/x/", `{"tenantName":"` + strings.Repeat("x", 10<<20) + `"}`, 413, []string{"too large"}},
	{"POST", create, `{"TenantName":"` + strings.Repeat("x", 10<<20) + `"}`, 413, []string{"too large"}},
	// Names.
	{"POST", "/api/v1/tenants/a%2Fb/", `{"tenantName":"a/b"}`, 404, nil},
	{"POST", "/api/v1/tenants/x/", `{"tenantName":"a/b"}`, 400, []string{"its fields make it"}},
	{"POST", nets + "blue:x/", `{"tenantName":"blue","networkName":"../x","encap":"vxlan","subnet":"10.5.0.0/24"}`, 400, []string{"its fields make it"}},
	{"POST", "/api/v1/tenants/-x-/", `{"tenantName":"-x-"}`, 400, []string{"tenantName", "want labels"}},
	{"POST", create, `{"TenantName":"blue/..","NetworkName":"front","ConfigEP":{"Container":"c"}}`, 422, []string{"front", "blue/.."}},
	// Keys of no object.
	{"GET", "/api/v1/networks/blue:moon/", "", 404, []string{"network"}},
	{"DELETE", "/api/v1/networks/blue:moon/", "", 404, []string{"network"}},
	{"GET", "/api/v1/moons/x/", "", 404, nil},
	{"POST", nets + "green:x/", network("green", "x", "10.5.0.0/24", ""), 422, []string{"Tenant not found"}},
	{"POST", groups + "blue:g/", `{"tenantName":"blue","groupName":"g","networkName":"moon"}`, 422, []string{"moon"}},
	{"POST", rules + "blue:moon:1/", `{"tenantName":"blue","policyName":"moon","ruleId":"1","direction":"in","action":"deny"}`, 422, []string{"Policy not found"}},
	{"POST", create, `{"TenantName":"blue","NetworkName":"moon","ConfigEP":{"Container":"c"}}`, 422, []string{"network moon of tenant blue"}},
	{"POST", "/plugin/deleteEndpoint", `{"TenantName":"blue","NetworkName":"front","EndpointID":"moon"}`, 404, []string{"front.blue-moon"}},
	// Addresses.
	{"POST", create, endpoint("front", "c", "10.9.9.9"), 400, []string{"10.9.9.9", "10.1.1.0/24"}},
	{"POST", create, endpoint("front", "c", "10.1.1.254"), 409, []string{"10.1.1.254"}},
	{"POST", create, endpoint("front", "c", "ten"), 400, []string{"ten"}},
	{"POST", create, endpoint("tiny", "c", ""), 409, []string{"exhaust", "10.3.0.0/30"}},
	{"POST", nets + "blue:x/", network("blue", "x", "10.1.1.128/25", ""), 409, []string{"front", "conflicts"}},
	{"POST", nets + "blue:x/", network("blue", "x", "10.5.0.0/24", `,"gateway":"10.6.0.1"`), 400, []string{"10.6.0.1", "10.5.0.0/24"}},
	{"POST", nets + "blue:x/", network("blue", "x", "10.5.0.0/33", ""), 400, []string{"subnet"}},
	// Tags.
	{"POST", nets + "red:x/", network("red", "x", "10.5.0.0/24", `,"pktTag":77`), 409, []string{"requested vxlan not available"}},
	{"POST", nets + "red:x/", network("red", "x", "10.5.0.0/24", `,"pktTag":60000`), 409, []string{"requested vxlan"}},
	{"POST", nets + "red:x/", strings.Replace(network("red", "x", "10.5.0.0/24", `,"pktTag":88`), "vxlan", "vlan", 1), 409, []string{"requested vlan not available", "88"}},
	// Objects in use, or permanent.
	{"DELETE", "/api/v1/tenants/blue/", "", 409, []string{"blue", "1 endpoint groups"}},
	{"DELETE", nets + "blue:front/", "", 409, []string{"front", "1 endpoint groups"}},
	{"DELETE", nets + "blue:tiny/", "", 409, []string{"active endpoints"}},
	{"DELETE", groups + "blue:web/", "", 409, []string{"web", "active endpoints"}},
	{"POST", nets + "blue:front/", network("blue", "front", "10.7.0.0/24", ""), 409, []string{"Cant change network"}},
	{"POST", "/api/v1/tenants/blue/", `{"tenantName":"blue","defaultNetwork":"tiny"}`, 409, []string{"Cant change tenant"}},
	{"POST", "/api/v1/globals/global/", `{"name":"global","fwdMode":"bridge","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`, 409, []string{"forwarding mode"}},
}

func network(tenant, name, subnet, more string) string {
	return fmt.Sprintf(`{"tenantName":%q,"networkName":%q,"encap":"vxlan","subnet":%q%s}`, tenant, name, subnet, more)
}

func endpoint(network, container, ip string) string {
	return fmt.Sprintf(`{"TenantName":"blue","NetworkName":%q,"EndpointID":%[2]q,"ConfigEP":{"Container":%[2]q,"Host":"node1","IPAddress":%q}}`, network, container, ip)
}

func badInput(s story) {
	s.tenant("blue")
	s.tenant("red")
	s.network("blue", "front", "10.1.1.0/24")
	s.netctlForNow("network create -t blue -s 10.3.0.0/30 -g 10.3.0.2 tiny", "network rm -t blue tiny")
	s.netctlForNow("network create -t blue -s 10.4.0.0/24 -p 77 tagged", "network rm -t blue tagged")
	s.netctlForNow("network create -t blue -s 10.8.0.0/24 -e vlan -p 88 vlan", "network rm -t blue vlan")
	s.group("blue", "front", "web")
	s.pod(0, "tiny", "blue", "tiny", "")
	s.pod(0, "web", "blue", "front", "web")

	before := s.keysOfMasters()
	leader := s.leader()
	for _, n := range []*testbed.Node{leader, s.otherThan(leader)} {
		for _, r := range refused {
			s.isRefused(n, r)
		}
	}
	if after := s.keysOfMasters(); before != after {
		s.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// keysOfMasters returns the store's keys with hashes, except for the records of agents about their own nodes: they
// write those a while after a pod has started.
func (s story) keysOfMasters() string {
	s.Helper()
	all, err := s.bed.Keys(s.ctx, mastercfg.Root)
	s.must(err)
	var lines []string
	for line := range strings.Lines(all) {
		if !strings.HasPrefix(line, mastercfg.OvsDriverPrefix) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		s.Fatal("there is nothing in the store")
	}
	return strings.Join(lines, "")
}

func (s story) isRefused(n *testbed.Node, r request) {
	s.Helper()
	what := fmt.Sprintf("%s: %s %s %.80s", n.Name, r.method, r.path, r.body)
	got, err := send(s.ctx, n, r.method, masterURL(n, r.path), strings.NewReader(r.body))
	if err != nil {
		s.Errorf("%s: %v", what, err)
		return
	}
	text := got.body
	var problem struct {
		Code    int
		Message string
	}
	if json.Unmarshal([]byte(got.body), &problem) == nil && problem.Message != "" {
		text = problem.Message
	}
	if got.status != r.status {
		s.Errorf("%s: status %d, want %d: %s", what, got.status, r.status, text)
	}
	for _, word := range r.says {
		if !strings.Contains(text, word) {
			s.Errorf("%s: the answer does not say %q: %s", what, word, text)
		}
	}
}

// silent is the number of clients that connect and send nothing.
const silent = 2000

// tries is the number of attempts for a busy machine, which may be late by chance.
const tries = 3

func silentClients(s story) {
	const headerTime = 5 * time.Second // a client's time limit for its header
	best := s.besideSilent()
	for try := 1; try < tries && best > headerTime; try++ {
		best = s.besideSilent()
	}
	if best > headerTime {
		s.Errorf("beside %d silent clients: after %s", silent, best)
	}
}

// besideSilent returns how long a client takes beside silent ones.
func (s story) besideSilent() time.Duration {
	s.Helper()
	leader := s.leader()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(32)
	conns := make([]net.Conn, silent)
	for i := range conns {
		g.Go(func() (err error) {
			conns[i], err = leader.DialContext(ctx, "tcp", leader.MgmtIP+":9999")
			return err
		})
	}
	err := g.Wait()
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	s.must(err)
	started := time.Now()
	got, err := send(s.ctx, leader, http.MethodGet, masterURL(leader, "/api/v1/tenants/"), nil)
	s.must(err)
	took := time.Since(started)
	if got.status != http.StatusOK {
		s.Errorf("beside %d silent clients: status %d after %s", silent, got.status, took)
	}
	return took
}
