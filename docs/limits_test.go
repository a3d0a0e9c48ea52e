package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/limits.md anew")

// unit is how a number is written.
type unit int

const (
	number unit = iota
	bytes
	span // of time
)

// limit is a constant of a package and its meaning.
type limit struct {
	constant string // folder and name
	unit     unit
	meaning  string
}

func (l limit) place() (folder, name string) {
	dot := strings.LastIndexByte(l.constant, '.')
	return l.constant[:dot], l.constant[dot+1:]
}

const limitsPreface = `# Limits

Written by ` + "`go test ./docs -update`" + ` from the constants of the code; the meanings are in
` + "`docs/limits_test.go`" + `. What the fields of an object may hold is in [api.md](api.md); flags that
set a limit are in the ` + "`--help`" + ` of the daemons.
`

const connectionTracking = "**Connections.** Those by the way out are in the kernel's table, of which each endpoint has a share\n" +
	"([networking.md](networking.md#outside)). Those to services, and those that policies judge, are in the datapath's table, in\n" +
	"which each of several tenants has a part on each node ([pipeline.md](pipeline.md#connections-and-masks)), but an endpoint has no part\n" +
	"of its own: one that opens very many fills its tenant's, and new connections of other endpoints of that tenant fail there until\n" +
	"its own time out."

var limitSections = []struct {
	title, intro string
	limits       []limit
}{
	{"What clients fill in", "Every text is UTF-8 without control characters. Refused as invalid, with field, value and limit.", []limit{
		{"contivmodel/limits.Name", bytes, "name of an object in a request of an agent"},
		{"contivmodel/limits.Host", bytes, "host label"},
		{"contivmodel/limits.Container", bytes, "id that a runtime gives a container"},
		{"contivmodel/limits.CommonName", bytes, "name that it gives it"},
		{"contivmodel/limits.EndpointID", bytes, "id of an endpoint: network, tenant and container with what joins them"},
		{"contivmodel/limits.Address", bytes, "address"},
		{"contivmodel/limits.LabelCount", number, "labels of a container"},
		{"contivmodel/limits.LabelKey", bytes, "key of a label"},
		{"contivmodel/limits.LabelValue", bytes, "value of a label"},
		{"contivmodel/limits.LabelsTotal", bytes, "keys and values of all labels of a container"},
		{"contivmodel/limits.ListItem", bytes, "item of a list of an object"},
		{"contivmodel/limits.ListItems", number, "items of a list of an object"},
		{"contivmodel/limits.ListTotal", bytes, "all items of a list of an object together"},
	}},
	{"What a cluster can have", connectionTracking, []limit{
		{"ofnet/pipeline.MaxVNI", number, "highest VNI of a network"},
		{"netmaster/resources.maxVXLANSpan", number, "VNIs in the range of a cluster, and so vxlan networks"},
		{"ofnet/pipeline.MaxGroup", number, "endpoint groups"},
		{"ofnet/pipeline.MaxPriority", number, "highest priority of a rule"},
		{"ofnet/pipeline.MaxMembers", number, "endpoints of a bridged network on one node; the ADD beyond is refused"},
		{"ofnet/pipeline.MaxFloodPeers", number, "other nodes with endpoints of a bridged network; with more nothing is flooded"},
		{"netplugin/hostaccess.newPerSecond", number, "connections that an endpoint begins by the way out in a second"},
		{"netplugin/hostaccess.newAtOnce", number, "and at once"},
		{"netplugin/hostaccess.sharePart", number, "endpoints that would fill the host's connection tracking, each with its share"},
	}},
	{"Requests to netmaster", "", []limit{
		{"netmaster/api/rest.MaxBody", bytes, "body; a larger one gets status 413"},
		{"netmaster/api/rest.MaxApply", bytes, "body of `/api/v1/apply`"},
		{"netmaster/daemon.maxHeader", bytes, "request line and header; a larger one gets status 431"},
		{"netmaster/daemon.bodiesTotal", bytes, "all bodies that are being received"},
		{"netmaster/daemon.maxConnections", number, "connections; beyond it those that say nothing are closed. Half of the open files a process may have, if that is less"},
		{"netmaster/daemon.shareOf", number, "addresses that would have all of these, each with its share; beyond it those of an address that say nothing are closed"},
		{"netmaster/ratelimit.HandshakeRate", number, "TLS handshakes a second of one address at one netmaster, or at a node; one that comes too early waits for a second at most. Where netmasters have come from has no limit, nor has the machine itself, at loopback. Clients behind one address, as that of a load balancer, share it"},
		{"netmaster/ratelimit.HandshakeBurst", number, "and at once"},
		{"netmaster/ratelimit.HandshakesOfNetwork", number, "times as many are those of one /64 of IPv6"},
		{"netmaster/daemon.headerTime", span, "from the first byte of a request to the end of its header; also for a TLS handshake, and until it begins"},
		{"netmaster/daemon.requestTime", span, "to the end of the body"},
		{"netmaster/daemon.answerLimit", span, "to the beginning of the answer"},
		{"netmaster/daemon.paceTime", span, "for a client to read each piece of an answer"},
		{"netmaster/daemon.pacePiece", bytes, "such a piece"},
		{"netmaster/daemon.idleTime", span, "until a connection without a request is closed, also a new one after its handshake"},
		{"netmaster/api.answersTotal", bytes, "all long answers that wait for their readers, all but one compressed; beyond it status 503 with `Retry-After`"},
		{"netmaster/api.answersOfOne", bytes, "several long answers of one client together, where the cluster is not enforced; a client that shows no identity is its address. Beyond it status 503, too"},
		{"netmaster/api.maxWatches", number, "watches"},
		{"netmaster/api/membership.vouchesAtOnce", number, "tokens of who joins that Kubernetes is asked about at a time"},
		{"netmaster/api/membership.vouchesTaken", number, "these, and those that wait for that; beyond it status 503 with `Retry-After`"},
		{"netmaster/api/membership.vouchTime", span, "for its answer, and to wait for a place, together; then status 503, too"},
		{"netmaster/api/logins.outsideAtOnce", number, "logins at a time that the LDAP directory is asked about, and as many the OpenID Connect provider; beyond it status 503, as in the next one"},
		{"netmaster/api/logins.greetedAtOnce", number, "clients at a time that ask where to log in by OpenID Connect"},
		{"netmaster/api/auth.ClientRate", number, "requests a second of one identity, or of one address that shows none, in an enforced cluster (`--client-rate`). What comes too early waits for a second at most, and gets status 429 with `Retry-After` then; root and netmasters are not limited, in this and the next four"},
		{"netmaster/api/auth.clientBurst", number, "seconds whose requests may come at once"},
		{"netmaster/api/auth.clientWatches", number, "watches of one identity; beyond it status 429, as in the next two"},
		{"netmaster/api/auth.clientApplies", number, "`/api/v1/apply` of one identity at a time"},
		{"netmaster/api.staticEndpoints", number, "endpoints of static pods of a node under Kubernetes, in an enforced cluster; those beyond wait until netmaster knows their mirror pods"},
		{"netmaster/mastercfg.EndpointsOfTenant", number, "endpoints that agents may ask for in a tenant whose `maxEndpoints` says nothing, but for tenant default"},
		{"netmaster/api/objects.others", number, "policies that who administers a tenant may make in it, and as many objects of each other type without a field of the tenant; operators may more"},
		{"netmaster/api/objects.AppliedPerRule", number, "times as many rules as a tenant may have (`maxRules`) that he may have applied to groups, each rule counted for each group of its policy"},
		{"netmaster/api/rest.longestRequestID", number, "bytes of the id that a client gives a request in `X-Request-Id`; a longer one is replaced"},
		{"netmaster/api/auth.clientAnswers", number, "long answers of one identity: those that are searched for, that nodes are asked about, that are written, or that wait for their reader"},
		{"netmaster/api.bookmarkEvery", span, "between two lines of a watch of which nothing changes"},
		{"netmaster/api.nodeTimeout", span, "for a node that is asked something on behalf of a client"},
		{"netmaster/api.countersPatience", span, "for all nodes together to tell what they count"},
	}},
	{"Nodes that reach the state through netmasters", "Of one node at one netmaster, unless something else is said. What exceeds a rate waits for two seconds at most, and is refused then.", []limit{
		{"netmaster/gate.nodeConnections", number, "connections; the oldest is closed for one more"},
		{"netmaster/gate.nodeStreams", number, "calls and streams at once on a connection"},
		{"netmaster/gate.mostResets", number, "streams of a connection that the node resets within ten seconds; one more ends the connection"},
		{"netmaster/gate.mostBegun", number, "calls and streams that the node begins on a connection within ten seconds; one more ends the connection"},
		{"netmaster/gate.nodeWatches", number, "watches"},
		{"netmaster/gate.nodeLeases", number, "leases, at all netmasters together"},
		{"netmaster/gate.minTTL", number, "seconds that a lease has at least"},
		{"netmaster/gate.maxTTL", number, "seconds that it has at most"},
		{"netmaster/gate.nodeRate", number, "requests, and messages of streams, per second"},
		{"netmaster/gate.nodeBurst", number, "and at once"},
		{"netmaster/gate.nodeBytes", bytes, "that it writes per second"},
		{"netmaster/gate.burstBytes", bytes, "and at once"},
		{"netmaster/gate.maxEntries", number, "registrations"},
		{"utils/hostaddr.Most", number, "addresses in one of them"},
		{"netmaster/gate.maxOps", number, "operations of a transaction, and conditions"},
		{"netmaster/gate.maxRequest", bytes, "request"},
		{"netmaster/gate.maxHeader", bytes, "header of a call"},
		{"netmaster/gate.stateReadAtOnce", number, "thousandths of the whole state that a node reads at once"},
		{"netmaster/gate.stateReadRate", number, "such thousandths a second from then on"},
		{"netmaster/gate.scansAtOnce", number, "reads of many keys at a time, of all nodes together"},
		{"netmaster/gate.sendTime", span, "for a node to take a message of a watch; then its connection is closed"},
		{"netmaster/gate.greetTime", span, "to begin to speak HTTP/2 after the handshake"},
	}},
	{"Requests to netplugin, `:9090`", "", []limit{
		{"netplugin/nodeapi.maxConns", number, "connections from other machines, and as many of the machine itself; beyond it they are closed"},
		{"netplugin/nodeapi.shareOf", number, "addresses that would have all of these, each with its share"},
		{"netplugin/nodeapi.maxHeader", bytes, "request line and header"},
		{"netplugin/nodeapi.readTimeout", span, "for a request"},
		{"netplugin/nodeapi.writeTimeout", span, "for an answer"},
		{"netplugin/nodeapi.bigAnswers", number, "answers that grow with the cluster, at a time; and as many traces"},
		{"netplugin/nodeapi.bigAnswerWait", span, "for the turn of another one; then status 503 with `Retry-After`"},
		{"netplugin/nodeapi.bigAnswerTimeout", span, "for a client to read such an answer"},
	}},
	{"What load balancers ask a node, `:10256` and health ports of services", "Of each port. Endpoints reach them, too.", []limit{
		{"netplugin/kubehealth.maxConns", number, "connections from other machines and endpoints, and as many of the machine itself; beyond it they are closed"},
		{"netplugin/kubehealth.ofOne", number, "of these, of one address"},
		{"netplugin/kubehealth.maxHeader", bytes, "request line and header; a larger one gets status 431"},
		{"netplugin/kubehealth.headerTime", span, "to the end of the header"},
		{"netplugin/kubehealth.readTimeout", span, "for a request, for an answer, and until a connection without a request is closed"},
	}},
	{"CNI", "", []limit{
		{"cmd/contivk8s.defaultTimeout", number, "seconds for an ADD, if the configuration says nothing else"},
		{"cmd/contivk8s.otherTimeout", span, "for other commands"},
		{"cmd/contivk8s.patience", span, "to reach netplugin, which may be about to start"},
		{"mgmtfn/k8splugin.addsAtOnce", number, "ADDs carried out at a time on a node; as many wait, the others get code 11 at once"},
		{"mgmtfn/k8splugin.asksAtOnce", number, "STATUSes; the same"},
		{"mgmtfn/k8splugin.othersAtOnce", number, "other commands; the same, but a DEL is noted on disk then, and carried out later"},
		{"mgmtfn/k8splugin.maxConnections", number, "connections to netplugin's socket"},
		{"mgmtfn/k8splugin.requestTime", span, "for a client to send its request"},
		{"mgmtfn/k8splugin.addTime", span, "for an ADD in netplugin, undoing not included"},
		{"mgmtfn/k8splugin.readyTime", span, "for an ADD to wait for a datapath that is not ready"},
		{"mgmtfn/k8splugin.undoTime", span, "for a command to undo what it did; then that is left for later"},
		{"mgmtfn/k8splugin.otherTime", span, "for a CHECK or STATUS in netplugin"},
		{"netplugin/cluster.totalTime", span, "for a request of netplugin to netmaster, all tries together"},
		{"netplugin/cluster.tryTime", span, "for one try"},
		{"netplugin/cluster.lookupTime", span, "to ask the store who leads"},
		{"netplugin/cluster.storeTime", span, "that the store may be away; then the request fails"},
		{"mgmtfn/k8splugin/cniwire.MaxBody", bytes, "what a runtime says, and the answer"},
		{"mgmtfn/k8splugin/cniwire.maxContainerID", bytes, "id of a container"},
	}},
	{"Policies of Kubernetes", "What is beyond allows nothing, and an event of the policy says so ([kubernetes.md](kubernetes.md)).", []limit{
		{"netmaster/classes.MaxRules", number, "rules about a pod in a direction"},
		{"netmaster/classes.MaxNets", number, "networks of a NetworkPolicy, with what the `except` of each leaves of it"},
		{"netmaster/classes.maxRecord", bytes, "rules that a policy becomes, about classes of pods and networks"},
	}},
	{"Services of Kubernetes", "An event of the service tells of what is beyond ([kubernetes.md](kubernetes.md)).", []limit{
		{"netmaster/k8s.maxExternal", number, "external addresses that are served, and as many of load balancers"},
		{"netmaster/k8s.maxLooked", number, "of each that are looked at, the first ones"},
		{"netmaster/k8s.maxPorts", number, "ports of a service that are served, the first ones, each counted at every address, and at those of load balancers for each source range; a node port is one more at each cluster address. One is served in any case"},
		{"netplugin/agent.maxTroubles", number, "services and pods of which a node tells that it does not serve them as it should, the first ones by name; the others get no event"},
		{"netmaster/k8s.maxRanges", number, "source ranges of load balancers (`loadBalancerSourceRanges`) that are served, the first ones"},
		{"ofnet/pipeline.MaxProviders", number, "backends of a port that one node uses, its own and else each node others; of a tenant's service as many more as fit, some 390 to 630"},
		{"ofnet/pipeline.MaxAffinity", number, "seconds for which a client keeps its backend; a longer `sessionAffinity` is cut"},
		{"ofnet/pipeline.maxBuckets", number, "such backends of all ports at all addresses of a service, of a tenant's, too; each port gets an equal part, and one at least"},
		{"netmaster/k8s.maxBackends", number, "backends that are noted of a service, of all its ports together: those of some addresses"},
	}},
	{"A node", "", []limit{
		{"ofnet/pipeline.balancersOfAHost", number, "addresses of load balancers on interfaces of a node that serve more than pods"},
		{"ofnet/pipeline.nodePortsForParts", number, "node ports of UDP in the cluster that serve datagrams in fragments"},
		{"ofnet/pipeline.answersPerSecond", number, "packets per second of an endpoint that the switch answers itself (ARP, pings of a gateway), and neighbour solicitations, whoever answers them"},
		{"ofnet/pipeline.answersAtOnce", number, "such packets at once"},
		{"ofnet/pipeline.answersOfAllPerSecond", number, "such packets per second of all endpoints of a bridge together; those of the host itself do not count"},
		{"ofnet/pipeline.answersOfAllAtOnce", number, "of those at once"},
		{"ofnet/pipeline.expiredPerSecond", number, "packets per second, of all endpoints of a bridge, of which these are told that they cannot live another hop"},
		{"ofnet/pipeline.floodedPerSecond", number, "packets per second of an endpoint that a bridged network floods"},
		{"ofnet/pipeline.floodedAtOnce", number, "such packets at once"},
		{"drivers/ovsd/zones.tablePart", number, "zones that would fill the datapath's table of connections, each with its part; a tenant has two, and no limit where it is alone"},
		{"drivers/ovsd.manyMasks", number, "masks by which the datapath looks packets up, from where on the log tells whose they are"},
		{"ofnet/pipeline.slowedPerSecond", number, "packets per second of a pod that is slowed down"},
		{"ofnet/pipeline.slowedAtOnce", number, "such packets at once"},
		{"drivers/ovsd.slowTime", span, "for which it is slowed down; if it offends again soon after, twice as long"},
		{"drivers/ovsd.slowTimeMost", span, "for which it is slowed down at most"},
		{"netplugin/cluster.RegistrationTTL", span, "until a silent node counts as gone"},
		{"netmaster/mastercfg.maxBgpNeighbours", number, "BGP neighbours"},
		{"netplugin/bgp.DefaultMaxRoutes", number, "routes of a BGP neighbour, for IPv4 and for IPv6 each; one with more is closed, as `lastError` of `netctl bgp inspect` and `netctl check` say"},
		{"netplugin/bgp.DefaultClosedTime", span, "for which it is closed"},
		{"netplugin/bgp.manyEnds", number, "ends of the sessions with a BGP neighbour, in the next time, that are flapping, as `flapping` of `netctl bgp inspect` and `netctl check` say"},
		{"netplugin/bgp.flapWindow", span, "for which the end of a session counts"},
		{"netplugin/bgp.logPause", span, "between two lines of the log that say so of a neighbour, in which each change of its session is of level debug, or that say the same about one that is not reached, or that somebody who is no neighbour has connected"},
		{"drivers/ovsd.DefaultAuditInterval", span, "between two audits of the switch"},
	}},
}

func TestTheLimitsAreThoseOfTheCode(t *testing.T) {
	var page strings.Builder
	page.WriteString(limitsPreface)
	constants := packageConstants{}
	for _, section := range limitSections {
		fmt.Fprintf(&page, "\n## %s\n\n", section.title)
		if section.intro != "" {
			fmt.Fprintf(&page, "%s\n\n", section.intro)
		}
		page.WriteString("| Limit | Of | In the code |\n|---|---|---|\n")
		for _, l := range section.limits {
			value, err := constants.value(l.place())
			if err != nil {
				t.Fatal(err)
			}
			folder, name := l.place()
			fmt.Fprintf(&page, "| %s | %s | `%s` in `%s` |\n", l.unit.text(value), l.meaning, name, folder)
		}
	}
	const path = "limits.md"
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != page.String() {
		t.Errorf("%s is out of date (%v); write it anew with -update", path, err)
	}
}

func (u unit) text(n int64) string {
	switch {
	case u == span:
		return strings.Replace(time.Duration(n).String(), "m0s", "m", 1)
	case u == number:
		return fmt.Sprint(n)
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// packageConstants are the constants of packages, by folder, as far as they are
// made of constants of the same package and of units of time.
type packageConstants map[string]*types.Scope

func (p packageConstants) value(folder, name string) (int64, error) {
	scope, err := p.scope(folder)
	if err != nil {
		return 0, err
	}
	c, ok := scope.Lookup(name).(*types.Const)
	if !ok {
		return 0, fmt.Errorf("%s: there is no constant %s", folder, name)
	}
	n, exact := constant.Int64Val(constant.ToInt(c.Val()))
	if !exact {
		return 0, fmt.Errorf("%s: %s is %s, no whole number", folder, name, c.Val())
	}
	return n, nil
}

func (p packageConstants) scope(dir string) (*types.Scope, error) {
	if p[dir] != nil {
		return p[dir], nil
	}
	paths, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{
		IgnoreFuncBodies: true,
		Importer:         onlyTime{},
		Error:            func(error) {}, // of what the other packages have, which are not read
	}
	checked, _ := config.Check(dir, fset, files, nil)
	p[dir] = checked.Scope()
	return p[dir], nil
}

// onlyTime imports packages without their content, but for the units of time.
type onlyTime struct{}

func (onlyTime) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, filepath.Base(path))
	if path == "time" {
		name := types.NewTypeName(token.NoPos, pkg, "Duration", nil)
		duration := types.NewNamed(name, types.Typ[types.Int64], nil)
		pkg.Scope().Insert(name)
		for unit, d := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
			pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, unit, duration, constant.MakeInt64(int64(d))))
		}
	}
	pkg.MarkComplete()
	return pkg, nil
}
