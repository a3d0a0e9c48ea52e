package checkup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// agentTime limits one request to an agent.
const agentTime = 5 * time.Second

// maxAgentAnswer limits how many bytes of an agent's response are read.
const maxAgentAnswer = 64 << 20

// NotShown explains a partial status.
const NotShown = "netmasters and nodes are shown to who has the role operator or admin"

// Master is the client of the cluster's netmasters.
type Master interface {
	Version(context.Context) (buildinfo.Info, error)
	Status(context.Context) (contivmodel.Status, error)
	Agent(ctx context.Context, host, path string) (json.RawMessage, error)
	List(ctx context.Context, kind contivmodel.Kind) ([]contivmodel.Object, error)
}

// Cluster checks the netmasters, the store and every node.
func Cluster(ctx context.Context, m Master, agentPort int, report Report) {
	version, err := m.Version(ctx)
	if !report.check("netmaster", unserved(err), "version "+version.Version, err) {
		return
	}
	status, err := m.Status(ctx)
	if err != nil {
		report.check("status", "see the log of netmaster", "", err)
		return
	}
	healthy, sick := strings.Join(status.Store.Endpoints, ", "), fmt.Sprintf("not healthy: %v", status.Store.Endpoints)
	if status.Partial {
		healthy, sick = "healthy", "not healthy"
	}
	report.check("store", "is etcd running at these addresses, with a majority of its members?", healthy, unless(status.Store.Healthy, "%s", sick))
	if learners := status.Store.Learners; len(learners) > 0 {
		report.check("votes", "a member gets its vote when it runs and has caught up; stop no netmaster before that",
			"", fmt.Errorf("the store's members without a vote: %s", strings.Join(learners, ", ")))
	}
	if missing := status.Store.Missing; len(missing) > 0 {
		report.check("members", "start their netmasters, or the etcd there; if they run, see to their disks; docs/operations.md says what to do with one that is lost",
			"", fmt.Errorf("the store's members that do not answer: %s", strings.Join(missing, ", ")))
	}
	if status.Store.Full != "" {
		report.check("room", "docs/operations.md says how room is made in the store", "", errors.New(status.Store.Full))
	}
	report.check("leader", "see the logs of all netmasters; with an unhealthy store there can be no leader",
		fmt.Sprintf("%s, epoch %d", status.Leader, status.Epoch), unless(status.Leader != "", "nobody leads"))
	if status.Security != "" {
		report.check("security", "", secured(status.Security, status.Store.Endpoints), nil)
	}
	if status.Partial {
		report.check("parts", "", NotShown, nil)
	} else {
		report.registered("netmasters", "start netmaster on a second machine, to survive the loss of the first", len(status.Masters), status.Store.Healthy)
		report.registered("nodes", "is netplugin running, and does it use the same store?", registered(status.Nodes), status.Store.Healthy)
	}
	if s := status.Services; s != nil {
		report.check("services", "", served(s.Count, s.Unserved), nil)
	}
	checkRules(ctx, m, report)
	checkRouters(ctx, m, report)
	checkKubernetes(status.Kubernetes, status.Nodes, report)
	checkNodes(ctx, m, status.Nodes, agentPort, report)
}

// unserved says what to look at if no netmaster serves.
func unserved(err error) string {
	if !errors.Is(err, client.ErrUnreachable) && (fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotLeader)) {
		return "a netmaster answers, but none leads: does a majority of the store's members run, with disks that do not hang?"
	}
	return "is netmaster running, and is --netmaster right?"
}

// registered reports how many daemons of a kind are registered, which only the store knows.
func (report Report) registered(what, hint string, count int, known bool) {
	if count == 0 && !known {
		report.check(what, "", "", errors.New("not known while the store does not answer"))
		return
	}
	report.check(what, hint, fmt.Sprintf("%d registered", count), unless(count > 0, "none registered"))
}

// secured summarizes the security mode. An open cluster or store is not a problem, since it may be intended.
func secured(mode string, store []string) string {
	if mode == "open" {
		return "WARNING, open: whoever reaches a netmaster may do everything; netctl security --help says how to close it"
	}
	for _, text := range store {
		if inet.IsExposed(text) {
			return fmt.Sprintf("%s, WARNING: whoever reaches the store at %s may do everything; docs/security.md says how it gets https", mode, text)
		}
	}
	return mode
}

func unless(well bool, format string, args ...any) error {
	if well {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func registered(nodes []contivmodel.NodeStatus) int {
	count := 0
	for _, n := range nodes {
		if n.Registered {
			count++
		}
	}
	return count
}

// checkNodes queries all nodes concurrently and reports them in order.
func checkNodes(ctx context.Context, m Master, nodes []contivmodel.NodeStatus, port int, report Report) {
	results, reached := make([][]Result, len(nodes)), askTunnels(ctx, m, nodes, port)
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() {
			checkNode(ctx, n, nodes, reached, agentOf(m, n, port), func(r Result) { results[i] = append(results[i], r) })
		})
	}
	asking.Wait()
	for _, r := range slices.Concat(results...) {
		report(r)
	}
}

// switchView is the used part of an agent's view of its switch.
type switchView struct {
	VXLAN bridgeView  `json:"vxlan"`
	VLAN  *bridgeView `json:"vlan"` // nil: there is no uplink
}

// bridges returns the bridges of the node.
func (v switchView) bridges() []bridgeView {
	if v.VLAN == nil {
		return []bridgeView{v.VXLAN}
	}
	return []bridgeView{v.VXLAN, *v.VLAN}
}

type bridgeView struct {
	IsConnected bool
	VtepTable   map[string]string
	ErrStats    map[string]string
	Uplinks     map[string]string // link -> its problem, or ""
	Datapath    struct {
		Type    string
		Version string // of Open vSwitch, as released
		Package string // of the distribution; empty: unknown

		Replaced  bool // the running program may be of an earlier package
		Listeners []listener
		InSync    bool
		Pending   map[string]string
	}
}

// agent requests the responses of one agent, by path.
type agent struct {
	at  string // name in messages
	get func(ctx context.Context, path string) ([]byte, error)
}

// agentOf queries an agent directly or, if the node has joined the cluster, through netmaster: then it answers no
// other client.
func agentOf(m Master, n contivmodel.NodeStatus, port int) agent {
	if n.Joined {
		return agent{"asked by netmaster", func(ctx context.Context, path string) ([]byte, error) { return m.Agent(ctx, n.Host, path) }}
	}
	url := "http://" + net.JoinHostPort(hostOf(n.Address), strconv.Itoa(cmp.Or(n.Port, port)))
	return agent{url, func(ctx context.Context, path string) ([]byte, error) { return get(ctx, url+path) }}
}

func checkNode(ctx context.Context, n contivmodel.NodeStatus, all []contivmodel.NodeStatus, reached tunnels, asked agent, report Report) {
	if n.MustJoin {
		report.check("certificate "+n.Host, "netctl token create --role node, and the token into the --join-token-file of "+n.Host+
			"; or, if it is gone for good, netctl node rm "+n.Host, "", errors.New("it cannot be renewed: the authorities were replaced while the node was away, or it has ended long ago"))
	}
	if !n.Registered {
		report.check("node "+n.Host, "start netplugin there (if it runs, its /readyz tells what keeps it away), or, if it is gone for good, wait until its endpoints are freed",
			"", fmt.Errorf("not registered, %d endpoints", n.Endpoints))
		return
	}
	_, err := asked.get(ctx, "/readyz")
	if !report.check("agent "+n.Host, "see the log of netplugin on "+n.Host, asked.at, err) {
		return
	}
	var view switchView
	answer, err := asked.get(ctx, "/inspect/driver")
	if err == nil {
		err = json.Unmarshal(answer, &view)
	}
	if err == nil {
		err = view.VXLAN.trouble()
	}
	detail := fmt.Sprintf("%s datapath, in sync", view.VXLAN.Datapath.Type)
	report.check("switch "+n.Host, "is Open vSwitch running on "+n.Host+"? see also the log of netplugin", detail, err)
	if problem := view.VXLAN.ErrStats["LastError"]; err == nil && problem != "" { // such as of former uplinks
		report.check("bridge "+n.Host, "see the log of netplugin on "+n.Host+"; of former uplinks see docs/operations.md, The uplink", "", errors.New(problem))
	}
	view.VXLAN.checkFaults(n.Host, report)
	view.VXLAN.checkListeners(n.Host, report)
	if problem := view.VXLAN.ErrStats["HostAccess"]; problem != "" {
		report.check("host "+n.Host, "its pods do not reach the outside, or it does not reach them; see docs/networking.md, Outside", "", errors.New(problem))
	}
	if where := view.VXLAN.ErrStats["KubeProxy"]; where != "" {
		report.check("kube-proxy "+n.Host, "they lead the node's processes to those that it knew, or knows, at addresses of services: when nobody needs it any more, remove it and them, see docs/kubernetes.md, From kube-proxy",
			"", fmt.Errorf("its rules are in nftables: %s", where))
	}
	if problem := view.VXLAN.ErrStats["PodConfiguration"]; problem != "" {
		report.check("pods "+n.Host, "see docs/kubernetes.md, Debug", "", errors.New(problem))
	}
	if problem := view.VXLAN.ErrStats["Registrations"]; problem != "" {
		report.check("registrations "+n.Host, "two agents run with one --host-label, or one --vtep-ip; stop the one that is wrong", "", errors.New(problem))
	}
	for _, b := range view.bridges() {
		if problem := b.ErrStats["Conflicts"]; problem != "" {
			report.check("objects "+n.Host, "one of the two is not reached, or not sent: give it another address, or remove it", "", errors.New(problem))
		}
	}
	reached.check(n, all, view, report)
	if err == nil {
		view.checkPending(n.Host, report)
	}
	view.checkUplinks(n.Host, report)
	checkNames(ctx, n.Host, asked, report)
	checkBGP(ctx, n.Host, asked, report)
}

// trouble returns the problem of a switch, or nil.
func (v bridgeView) trouble() error {
	var reasons []string
	for _, text := range v.ErrStats {
		reasons = append(reasons, text)
	}
	for what, lack := range v.Datapath.Pending {
		reasons = append(reasons, what+" waits for "+lack)
	}
	slices.Sort(reasons)
	why := strings.Join(append([]string{""}, reasons...), "; ")
	switch {
	case !v.IsConnected:
		return errors.New("not connected to the switch" + why)
	case !v.Datapath.InSync:
		return errors.New("flows are not in sync" + why)
	}
	return nil
}

// missing returns an error that names the registered nodes without a tunnel.
func (v switchView) missing(n contivmodel.NodeStatus, all []contivmodel.NodeStatus) error {
	var missing []string
	for _, peer := range all {
		if peer.Registered && peer.Host != n.Host && peer.VTEP != "" && v.VXLAN.VtepTable[peer.Host] != peer.VTEP {
			missing = append(missing, fmt.Sprintf("%s (%s)", peer.Host, peer.VTEP))
		}
	}
	return unless(len(missing) == 0, "no tunnel to %s", strings.Join(missing, ", "))
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// get returns the body of a successful response.
func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAgentAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return nil, fmt.Errorf("%s: %s: %s", url, resp.Status, text)
	}
	return body, nil
}
