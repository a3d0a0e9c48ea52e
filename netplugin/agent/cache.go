package agent

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// peerPrefix is where agents register their VTEP.
const peerPrefix = objdb.ServicePrefix + mastercfg.AgentVTEPService + "/"

// cache is the part of the store that this node needs: decoded records, indexes between them, and the keys of
// the datapath objects whose wanted form may have changed. The agent's lock guards it.
type cache struct {
	host    string                                 // the label of this node
	vtep    netip.Addr                             // this node's VTEP; invalid: not known
	uplink  bool                                   // networks of encapsulation vlan are served
	outside bool                                   // endpoints may reach the outside through the host
	needed  func(protocol uint8, port uint16) bool // whether the node itself uses the port; nil: it uses none
	log     *logrus.Entry

	networks  map[string]network
	endpoints map[string]endpoint
	rules     map[string]rule
	limits    map[string]pipeline.Limits // by group; only groups with limits
	vrfs      map[string]uint16          // by tenant
	final     map[string]struct{}        // tenants with policy mode final: what rules of groups allow skips the later tiers
	peers     peers
	nodes     nodes
	global    mastercfg.GlobConfig // zero: not known
	mode      pipeline.Mode        // of all networks; the last valid one

	networksOf  index                     // tenant -> networks
	networksBy  index                     // tenant and encapsulation -> networks
	rulesOf     index                     // tenant -> rules
	endpointsIn index                     // network -> endpoints; the network's record may be missing
	endpointsOn index                     // host -> endpoints
	hostsIn     map[string]map[string]int // network -> host -> endpoints

	tenants  presence
	services services
	kube     kube
	standIns standIns
	routers  routers
	tiers    tiers
	named    named
	pods     map[string]mastercfg.K8sPod // of this node, by UID

	dirty       map[pipeline.Key]struct{}
	localsDirty bool // an endpoint record of this node changed
	hostDirty   bool // a network, or an endpoint of the host itself, changed
}

func newCache(host string, log *logrus.Entry) *cache {
	return &cache{
		host: host, log: log,

		networks: make(map[string]network), endpoints: make(map[string]endpoint), rules: make(map[string]rule),
		limits: make(map[string]pipeline.Limits), vrfs: make(map[string]uint16), final: make(map[string]struct{}),
		peers: newPeers(), nodes: newNodes(),

		networksOf: make(index), networksBy: make(index), rulesOf: make(index), endpointsIn: make(index), endpointsOn: make(index),
		hostsIn: make(map[string]map[string]int),

		tenants: newPresence(), services: newServices(), kube: newKube(), standIns: newStandIns(), routers: newRouters(),
		tiers: newTiers(), named: newNamed(), pods: make(map[string]mastercfg.K8sPod),

		dirty: make(map[pipeline.Key]struct{}),
	}
}

// kinds are the records that the agent reads. put decodes a value and stores it. If it returns an error, the
// value is unusable and the record is treated as absent, as it will be after a restart.
var kinds = []struct {
	prefix string
	put    func(c *cache, id string, value []byte, revision int64) error
	remove func(c *cache, id string)
}{
	{mastercfg.NetworkPrefix, (*cache).putNetwork, (*cache).removeNetwork},
	{mastercfg.EndpointPrefix, (*cache).putEndpoint, (*cache).removeEndpoint},
	{mastercfg.EndpointGroupPrefix, (*cache).putLimits, (*cache).removeLimits},
	{mastercfg.ServiceLBPrefix, (*cache).putService, (*cache).removeService},
	{mastercfg.ProviderPrefix, (*cache).putProvider, (*cache).removeProvider},
	{mastercfg.BgpPrefix, (*cache).putBGP, (*cache).removeBGP},
	{mastercfg.PolicyRulePrefix, (*cache).putRule, (*cache).removeRule},
	{mastercfg.VRFPrefix, (*cache).putVRF, (*cache).removeVRF},
	{mastercfg.K8sPodPrefix, (*cache).putPod, (*cache).removePod},
	{mastercfg.K8sServicePrefix, (*cache).putKubeService, (*cache).removeKubeService},
	{mastercfg.K8sBackendPrefix, (*cache).putBackend, (*cache).removeBackend},
	{mastercfg.K8sNodePrefix, (*cache).putKubeNode, (*cache).removeKubeNode},
	{mastercfg.K8sRangesKey, (*cache).putKubeRanges, (*cache).removeKubeRanges},
	{mastercfg.K8sClassPrefix, (*cache).putClass, (*cache).removeClass},
	{mastercfg.K8sPolicyPrefix, (*cache).putPolicy, (*cache).removePolicy},
	{mastercfg.K8sEpochKey, (*cache).putEpoch, (*cache).removeEpoch},
	{peerPrefix, (*cache).putPeer, (*cache).removePeer},
	{agentPrefix, (*cache).putAgent, (*cache).removeAgent},
	{masterPrefix, (*cache).putMaster, (*cache).removeMaster},
	{mastercfg.GlobalConfigKey, (*cache).putGlobal, (*cache).removeGlobal},
}

// apply applies a change of one key of the store; a nil value is a deletion.
func (c *cache) apply(key string, value []byte, revision int64) {
	for _, kind := range kinds {
		id, ours := strings.CutPrefix(key, kind.prefix)
		if !ours {
			continue
		}
		if value == nil {
			kind.remove(c, id)
		} else if err := kind.put(c, id, value, revision); err != nil {
			c.log.WithError(err).WithField("key", key).Error("value in the store cannot be used, skipped")
			kind.remove(c, id)
		}
		return
	}
}

func (c *cache) putNetwork(id string, value []byte, _ int64) error {
	n, err := decodeNetwork(id, value)
	if err != nil {
		return err
	}
	if n.part.Encap == pipeline.VLAN && !c.uplink {
		n.problem = "encapsulation vlan is not served on this node: it has no uplink"
	}
	if n.problem != "" && c.networks[id].problem != n.problem {
		c.log.WithFields(logrus.Fields{"network": id, "cause": n.problem}).Warn("network not served")
	}
	c.setNetwork(id, n, true)
	return nil
}

func (c *cache) removeNetwork(id string) { c.setNetwork(id, network{}, false) }

func (c *cache) setNetwork(id string, n network, exists bool) {
	old, existed := c.networks[id]
	if exists {
		c.networks[id] = n
	} else {
		delete(c.networks, id)
	}
	if existed == exists && old.part == n.part && old.problem == n.problem &&
		old.record.Tenant == n.record.Tenant && old.record.NwType == n.record.NwType {
		return
	}
	c.hostDirty = true
	c.nodePeersChange()
	c.markKubeServices(old.record.Tenant)
	c.markKubeServices(n.record.Tenant)
	if existed {
		c.networksOf.remove(old.record.Tenant, id)
		c.networksBy.remove(tenantEncap(old.record.Tenant, old.part.Encap), id)
		c.countLocals(old.record.Tenant, -c.hostsIn[id][c.host])
		c.share(id, old, -1)
	}
	if exists {
		c.networksOf.add(n.record.Tenant, id)
		c.networksBy.add(tenantEncap(n.record.Tenant, n.part.Encap), id)
		c.countLocals(n.record.Tenant, c.hostsIn[id][c.host])
		c.share(id, n, 1)
	}
	c.markNetwork(id)
	for _, n := range []network{old, n} {
		for _, apart := range c.otherEncapNetworks(n.part) {
			c.markServices(apart.ID)
		}
	}
}

func (c *cache) putEndpoint(id string, value []byte, revision int64) error {
	e, err := decodeEndpoint(id, value, c.host)
	if err != nil {
		return err
	}
	e.since = revision
	if e.problem != "" && c.endpoints[id].problem != e.problem {
		c.log.WithFields(logrus.Fields{"endpoint": id, "cause": e.problem}).Warn("endpoint not served")
	}
	c.setEndpoint(id, e, true)
	return nil
}

func (c *cache) removeEndpoint(id string) { c.setEndpoint(id, endpoint{}, false) }

func (c *cache) setEndpoint(id string, e endpoint, exists bool) {
	old, existed := c.endpoints[id]
	moved := existed != exists || old.host != e.host || old.netID != e.netID
	if existed && moved {
		c.endpointsIn.remove(old.netID, id)
		c.endpointsOn.remove(old.host, id)
		c.count(old, -1)
	}
	if !moved {
		e.since = old.since
	}
	delete(c.endpoints, id)
	if exists {
		c.endpoints[id] = e
	}
	if exists && moved {
		c.endpointsIn.add(e.netID, id)
		c.endpointsOn.add(e.host, id)
		c.count(e, 1)
	}
	if existed && moved {
		c.settle(old.host) // the held VTEP of a host is dropped with its last endpoint
	}
	if c.host == old.host || c.host == e.host {
		c.localsDirty = true
	}
	c.indexAddresses(id, old, index.remove)
	c.indexAddresses(id, e, index.add)
	c.tiers.setPod(old.podID(), e.podID(), id)
	c.attachedChange(old, e)
	c.settleClass(id)
	if id == mastercfg.EndpointID(cmp.Or(e.netID, old.netID), c.host) {
		c.hostDirty = true
	}
	if old.isOfHost(id) || e.isOfHost(id) {
		c.nodePeersChange()
	}
	c.mark(pipeline.KindEndpoint, id)
	c.mark(pipeline.KindFloodSet, old.netID)
	c.mark(pipeline.KindFloodSet, e.netID)
}

// knows reports whether the store has a record of an endpoint.
func (c *cache) knows(id string) bool {
	_, known := c.endpoints[id]
	return known
}

// markAttachedBefore records that a container was attached before this agent started:
// its endpoint is programmed before later ones.
func (c *cache) markAttachedBefore(id string) {
	if e, known := c.endpoints[id]; known {
		e.since = 0
		c.endpoints[id] = e
	}
}

func (c *cache) putRule(id string, value []byte, _ int64) error {
	r, err := decodeRule(id, value)
	if err != nil {
		return err
	}
	c.setRule(id, r, true)
	return nil
}

func (c *cache) removeRule(id string) { c.setRule(id, rule{}, false) }

func (c *cache) setRule(id string, r rule, exists bool) {
	old, existed := c.rules[id]
	if existed {
		delete(c.rules, id)
		c.rulesOf.remove(old.tenant, id)
	}
	if exists {
		c.rules[id] = r
		c.rulesOf.add(r.tenant, id)
	}
	c.mark(pipeline.KindRule, id)
}

func (c *cache) putVRF(tenant string, value []byte, _ int64) error {
	vrf, final, err := decodeVRF(value)
	if err != nil {
		return err
	}
	c.setVRF(tenant, vrf, final)
	return nil
}

func (c *cache) removeVRF(tenant string) { c.setVRF(tenant, 0, false) }

func (c *cache) setVRF(tenant string, vrf uint16, final bool) {
	if _, was := c.final[tenant]; was != final {
		c.final[tenant] = struct{}{}
		if !final {
			delete(c.final, tenant)
		}
		c.markRules(tenant)
	}
	if c.vrfs[tenant] == vrf {
		return
	}
	if vrf == 0 {
		delete(c.vrfs, tenant)
	} else {
		c.vrfs[tenant] = vrf
	}
	c.markTenant(tenant)
	c.mark(pipeline.KindOutside, OutsideID)
}

func (c *cache) putGlobal(_ string, value []byte, _ int64) error {
	var g mastercfg.GlobConfig
	if err := json.Unmarshal(value, &g); err != nil {
		return err
	}
	moved := g.PvtSubnet != c.global.PvtSubnet
	c.global = g
	c.mark(pipeline.KindOutside, OutsideID)
	if mode, err := modeOf(g); err == nil && (mode != c.mode || moved) {
		c.setMode(mode)
	}
	return nil
}

// removeGlobal keeps the mode of the networks.
func (c *cache) removeGlobal(string) { c.global = mastercfg.GlobConfig{} }

func (c *cache) setMode(mode pipeline.Mode) {
	for id, n := range c.networks {
		c.share(id, n, -1)
	}
	c.mode = mode
	for id, n := range c.networks {
		c.share(id, n, 1)
		c.markNetwork(id)
	}
	for tenant := range c.kube.servicesOf {
		c.markKubeServices(tenant)
	}
	c.markFarRules()
}

// globalKnown reports whether netmaster has ever configured this cluster.
func (c *cache) globalKnown() bool { return c.global.FwdMode != "" && c.global.PvtSubnet != "" }

// count updates the number of endpoints of a network, by host.
func (c *cache) count(e endpoint, step int) {
	hosts := c.hostsIn[e.netID]
	if hosts == nil {
		hosts = make(map[string]int)
		c.hostsIn[e.netID] = hosts
	}
	if hosts[e.host] += step; hosts[e.host] == 0 {
		delete(hosts, e.host)
	}
	if len(hosts) == 0 {
		delete(c.hostsIn, e.netID)
	}
	if n, known := c.networks[e.netID]; known && e.host == c.host {
		c.countLocals(n.record.Tenant, step)
		if c.routedVLAN(n) {
			c.countLocals(routedVLANs, step)
		}
	}
}

func (c *cache) mark(kind pipeline.Kind, id string) {
	c.dirty[pipeline.Key{Kind: kind, ID: id}] = struct{}{}
}

func (c *cache) markTenant(tenant string) {
	for id := range c.networksOf[tenant] {
		c.markNetwork(id)
	}
	c.markKubeServices(tenant)
	c.markRules(tenant)
}

func (c *cache) markRules(tenant string) {
	for id := range c.rulesOf[tenant] {
		c.mark(pipeline.KindRule, id)
	}
}

func (c *cache) markNetwork(id string) {
	c.mark(pipeline.KindNetwork, id)
	c.mark(pipeline.KindFloodSet, id)
	c.markServices(id)
	for endpoint := range c.endpointsIn[id] {
		c.mark(pipeline.KindEndpoint, endpoint)
		if e := c.endpoints[endpoint]; e.host == c.host {
			c.markServed(e)
		}
	}
}

func (c *cache) markHost(host string) {
	for id := range c.endpointsOn[host] {
		c.mark(pipeline.KindEndpoint, id)
		c.mark(pipeline.KindFloodSet, c.endpoints[id].netID)
	}
}
