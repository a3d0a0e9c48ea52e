package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"pgregory.net/rapid"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The test compares the incremental planner with a direct implementation of the rules: whatever the order in which
// records are added, changed and removed, the driver finally has what naive() computes from the existing records.

const me = "node1"

var (
	tenants = []string{"blue", "red"}
	hosts   = []string{me, "node2", "node3"}
	quiet   = func() *logrus.Entry { l := logrus.New(); l.SetOutput(io.Discard); return logrus.NewEntry(l) }()
)

// model is the store as text and a node's record of its peers.
type model struct {
	keys     map[string]string
	revision int64
	since    map[string]int64 // revision since when a registration has its value
	recalled map[string]string
	refused  map[string]string // key of a registration -> the address of its host
	peers    map[string]bool   // addresses of all other nodes that were ever in force, and of those refused since
	mode     pipeline.Mode     // the last valid one
	uplink   bool
}

func (m *model) hostsInUse() map[string]bool {
	inUse := make(map[string]bool)
	for key, value := range m.keys {
		if !strings.HasPrefix(key, mastercfg.EndpointPrefix) {
			continue
		}
		var e mastercfg.CfgEndpointState
		if json.Unmarshal([]byte(value), &e) == nil {
			inUse[e.HomingHost] = true
		}
	}
	return inUse
}

// remember updates the VTEPs in force: the oldest live entry, or the last one as long as the host is in use.
func (m *model) remember() {
	oldest := make(map[string]int64)
	for key, value := range m.keys {
		if !strings.HasPrefix(key, peerPrefix) {
			continue
		}
		host, vtep, err := decodePeer([]byte(value))
		if err == nil && (oldest[host] == 0 || m.since[key] < oldest[host]) {
			oldest[host], m.recalled[host] = m.since[key], vtep.String()
		}
	}
	for host := range oldest {
		if host != me {
			m.peers[m.recalled[host]] = true
		}
	}
	defer m.refuse()
	var g mastercfg.GlobConfig
	if json.Unmarshal([]byte(m.keys[mastercfg.GlobalConfigKey]), &g) == nil {
		if mode, err := modeOf(g); err == nil {
			m.mode = mode
		}
	}
	inUse := m.hostsInUse()
	for host := range m.recalled {
		if oldest[host] == 0 && !inUse[host] {
			delete(m.recalled, host)
		}
	}
}

// refuse drops the addresses of newly refused registrations.
func (m *model) refuse() {
	refused, inForce := map[string]string{}, slices.Collect(maps.Values(m.recalled))
	for key, value := range m.keys {
		if !strings.HasPrefix(key, peerPrefix) {
			continue
		}
		host, vtep, err := decodePeer([]byte(value))
		if err != nil || m.recalled[host] == vtep.String() {
			continue
		}
		refused[key] = host + " " + m.recalled[host]
		if m.refused[key] != refused[key] && !slices.Contains(inForce, vtep.String()) {
			delete(m.peers, vtep.String())
		}
	}
	m.refused = refused
}

// naive is the specification: all wanted objects, from the records alone.
func (m *model) naive() map[pipeline.Key]pipeline.Object {
	networks, vrfs, final, present := map[string]network{}, map[string]uint16{}, map[string]bool{}, map[string]bool{}
	shared := func(n network) bool {
		return n.record.PktTagType == "vlan" && n.problem == "" && m.mode == pipeline.Routed
	}
	sharing, anyShared := map[string]bool{}, false // tenants with routed VLANs; whether one is here
	endpoints, limits := map[string]endpoint{}, map[string]pipeline.Limits{}
	for key, value := range m.keys {
		if id, ok := strings.CutPrefix(key, mastercfg.NetworkPrefix); ok {
			if n, err := decodeNetwork(id, []byte(value)); err == nil {
				networks[id] = n
			}
		} else if id, ok := strings.CutPrefix(key, mastercfg.EndpointPrefix); ok {
			if e, err := decodeEndpoint(id, []byte(value), me); err == nil {
				endpoints[id] = e
			}
		} else if id, ok := strings.CutPrefix(key, mastercfg.EndpointGroupPrefix); ok {
			if l, err := decodeLimits([]byte(value)); err == nil {
				limits[id] = l
			}
		} else if id, ok := strings.CutPrefix(key, mastercfg.VRFPrefix); ok {
			if vrf, ends, err := decodeVRF([]byte(value)); err == nil {
				vrfs[id], final[id] = vrf, ends
			}
		}
	}
	for _, n := range networks {
		sharing[n.record.Tenant] = sharing[n.record.Tenant] || shared(n)
	}
	for _, e := range endpoints {
		if n, known := networks[e.netID]; known && e.host == me {
			present[n.record.Tenant] = true
			anyShared = anyShared || shared(n)
		}
	}
	want := make(map[pipeline.Key]pipeline.Object)
	add := func(o pipeline.Object) { want[o.Key()] = o }
	for vtep := range m.peers {
		add(pipeline.Peer{VTEP: netip.MustParseAddr(vtep)})
	}
	for id, n := range networks {
		here := present[n.record.Tenant] || anyShared && shared(n)
		if vrf := vrfs[n.record.Tenant]; here && n.problem == "" && vrf != 0 && (m.uplink || n.record.PktTagType == "vxlan") {
			if n.part.VRF, n.part.Mode = vrf, m.mode; shared(n) {
				n.part.VRF = pipeline.SharedVRF
			}
			networks[id] = n
			add(n.part)
		}
	}
	floods := map[string]pipeline.FloodSet{}
	for id, n := range networks {
		if n.part.VRF != 0 && m.mode.Bridged() {
			floods[id] = pipeline.FloodSet{Network: id, Encap: n.part.Encap, VNI: n.part.VNI, Tag: n.part.Tag}
		}
	}
	for _, e := range endpoints {
		s, flooded := floods[e.netID]
		vtep, known := m.recalled[e.host]
		switch {
		case !flooded:
			continue
		case e.host != me && known && s.Encap == pipeline.VXLAN:
			s.VTEPs = append(s.VTEPs, netip.MustParseAddr(vtep))
		case e.host == me && e.problem == "":
			s.Members = append(s.Members, e.part.MAC)
		}
		floods[e.netID] = s
	}
	for _, s := range floods {
		slices.SortFunc(s.VTEPs, netip.Addr.Compare)
		s.VTEPs = slices.Compact(s.VTEPs)
		slices.SortFunc(s.Members, func(a, b [6]byte) int { return bytes.Compare(a[:], b[:]) })
		add(s)
	}
	for _, e := range endpoints {
		n := networks[e.netID]
		if e.problem != "" || n.part.VRF == 0 {
			continue
		}
		o := e.part
		o.Tenant, o.Mode, o.Encap, o.VRF, o.VNI, o.Tag, o.Local = n.part.Tenant, m.mode, n.part.Encap, n.part.VRF, n.part.VNI, n.part.Tag, e.host == me
		if o.Local {
			o.Limits = limits[e.record.EndpointGroupKey]
		} else if o.Encap == pipeline.VXLAN {
			vtep, known := m.recalled[e.host]
			if !known {
				continue
			}
			o.VTEP = netip.MustParseAddr(vtep)
		}
		add(o)
	}
	for key, value := range m.keys {
		if id, ok := strings.CutPrefix(key, mastercfg.PolicyRulePrefix); ok {
			if r, err := decodeRule(id, []byte(value)); err == nil && (present[r.tenant] || anyShared && sharing[r.tenant]) {
				switch direction := id[strings.LastIndex(id, ":")+1:]; {
				case final[r.tenant] && direction == "inRx":
					r.part.Ends = pipeline.EndsIn
				case final[r.tenant] && direction == "outTx":
					r.part.Ends = pipeline.EndsOut
				}
				add(r.part)
			}
		}
	}
	return want
}

// drawChange returns a random key and value; an empty value deletes.
func drawChange(t *rapid.T) (key, value string) {
	tenant := rapid.SampledFrom(tenants).Draw(t, "tenant")
	netID := mastercfg.NetworkID(tenant, rapid.SampledFrom([]string{"web", "db"}).Draw(t, "network"))
	number := rapid.IntRange(1, 3)
	switch rapid.SampledFrom([]string{"network", "endpoint", "group", "rule", "vrf", "peer", "global"}).Draw(t, "kind") {
	case "network":
		key = mastercfg.NetworkPrefix + netID
		value = text(mastercfg.CfgNetworkState{
			ID: netID, Tenant: rapid.SampledFrom(tenants).Draw(t, "owner"), PktTagType: rapid.SampledFrom([]string{"vxlan", "vxlan", "vlan"}).Draw(t, "encap"),
			PktTag: number.Draw(t, "vlan"), ExtPktTag: number.Draw(t, "vni"), SubnetIP: "10.1.0.0", SubnetLen: 16,
			Gateway: rapid.SampledFrom([]string{"10.1.0.1", "", "nonsense"}).Draw(t, "gateway"), EpCount: number.Draw(t, "count"),
		})
	case "endpoint":
		c := number.Draw(t, "container")
		id := mastercfg.EndpointID(netID, fmt.Sprint(c))
		key = mastercfg.EndpointPrefix + id
		value = text(mastercfg.CfgEndpointState{
			ID: id, NetID: netID, IPAddress: fmt.Sprintf("10.1.0.%d", 10+c), MacAddress: fmt.Sprintf("02:02:0a:01:00:%02x", 10+c),
			HomingHost:      rapid.SampledFrom(hosts).Draw(t, "host"),
			EndpointGroupID: rapid.SampledFrom([]int{0, 1, -1}).Draw(t, "group"),

			EndpointGroupKey: rapid.SampledFrom([]string{"", "front:" + tenant}).Draw(t, "group key"),
		})
	case "group":
		key = mastercfg.EndpointGroupPrefix + mastercfg.EndpointGroupID(tenant, "front")
		value = text(mastercfg.EndpointGroupState{
			DSCP:      rapid.SampledFrom([]int{0, 46, 64}).Draw(t, "dscp"),
			Bandwidth: rapid.SampledFrom([]string{"", "10Mbps", "nonsense"}).Draw(t, "bandwidth"),
		})
	case "rule":
		id := fmt.Sprintf("%s:front:%s:p:%s:p:%d:%s", tenant, tenant, tenant, number.Draw(t, "rule"), rapid.SampledFrom([]string{"inRx", "inTx", "outRx", "outTx"}).Draw(t, "direction"))
		key = mastercfg.PolicyRulePrefix + id
		value = text(mastercfg.CfgPolicyRule{RuleID: id, Priority: number.Draw(t, "priority"), Action: rapid.SampledFrom([]string{"allow", "deny", "?"}).Draw(t, "action")})
	case "vrf":
		key = mastercfg.VRFPrefix + tenant
		value = text(mastercfg.VRFState{ID: tenant, VRF: uint16(rapid.IntRange(0, 2).Draw(t, "vrf")), PolicyMode: rapid.SampledFrom([]string{"", "", "final", "later"}).Draw(t, "mode")})
	case "peer":
		n := number.Draw(t, "address")
		key = fmt.Sprintf("%s192.0.2.%d:4789", peerPrefix, n)
		value = fmt.Sprintf(`{"Hostname":%q,"HostAddr":"192.0.2.%d","Port":4789}`, rapid.SampledFrom(hosts).Draw(t, "host"), n)
	case "global":
		key = mastercfg.GlobalConfigKey
		value = text(mastercfg.GlobConfig{FwdMode: rapid.SampledFrom([]string{"routing", "bridge", "l3"}).Draw(t, "forwarding"),
			ArpMode: rapid.SampledFrom([]string{"proxy", "flood"}).Draw(t, "ARP")})
	}
	switch rapid.IntRange(0, 9).Draw(t, "fate") {
	case 0, 1, 2:
		value = ""
	case 3:
		value = "{corrupt"
	}
	return key, value
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestIncrementalResultEqualsAReadingFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{keys: map[string]string{}, since: map[string]int64{}, recalled: map[string]string{}, peers: map[string]bool{}}
		c, p := newCache(me, quiet), newPlanner()
		m.uplink = rapid.Bool().Draw(t, "uplink")
		c.uplink = m.uplink
		inSwitch := make(map[pipeline.Key]pipeline.Object)
		apply := func(key, value string) {
			m.revision++
			if value == "" || value != m.keys[key] {
				m.since[key] = m.revision
			}
			if value == "" {
				delete(m.keys, key)
				c.apply(key, nil, m.revision)
			} else {
				m.keys[key] = value
				c.apply(key, []byte(value), m.revision)
			}
			m.remember()
		}
		for _, tenant := range tenants { // so that most histories have objects
			apply(vrfKey(tenant), `{"vrf":1}`)
			encap := rapid.SampledFrom([]string{"vxlan", "vlan"}).Draw(t, "encap of web")
			apply(netKey("web."+tenant), strings.Replace(netValue(tenant, ""), "vxlan", encap, 1))
			apply(epKey("web."+tenant+"-0"), epValue("web."+tenant, rapid.SampledFrom(hosts).Draw(t, "host of the first"), "10.1.0.9"))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(1, 3).Draw(t, "batch") {
				apply(drawChange(t))
			}
			for more := true; more; more = len(c.tenants.backlog) > 0 {
				change, _ := p.plan(c, rapid.IntRange(1, 3).Draw(t, "portion"))
				for _, key := range change.Remove {
					if _, there := inSwitch[key]; !there {
						t.Fatalf("removed %v, which the driver does not have", key)
					}
					delete(inSwitch, key)
				}
				for _, object := range change.Set {
					if before := inSwitch[object.Key()]; before != nil && before.Equal(object) {
						t.Fatalf("set %v again, unchanged", object.Key())
					}
					inSwitch[object.Key()] = object
				}
			}
			if diff := cmp.Diff(m.naive(), inSwitch, cmp.Comparer(func(a, b pipeline.Object) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(b) })); diff != "" {
				t.Fatalf("wanted (-) and given (+) differ:\n%s", diff)
			}
		}
	})
}

func FuzzRecordsOfAnyContentAreTakenOrLeft(f *testing.F) {
	f.Add(netValue("blue", ""))
	f.Add(epValue("web.blue", me, "10.1.0.2"))
	f.Add(ruleValue("blue:r", "deny"))
	f.Add(`{"Bandwidth":"10 Mbps","Burst":20,"DSCP":46}`)
	f.Add(vtepValue("node2", "192.0.2.2"))
	f.Add(`{"vrf":65536}`)
	f.Add(globalValue)
	f.Fuzz(func(t *testing.T, value string) {
		c, p := newCache(me, quiet), newPlanner()
		for _, key := range []string{netKey("web.blue"), epKey("web.blue-1"), mastercfg.EndpointGroupPrefix + "front:blue", ruleKey("blue:r"), vrfKey("blue"), vtepKey("192.0.2.2"), mastercfg.GlobalConfigKey} {
			c.apply(key, []byte(value), 1)
			p.plan(c, everything)
			c.apply(key, nil, 2)
		}
		if change, _ := p.plan(c, everything); len(change.Set) > 0 || len(c.endpoints)+len(c.tenants.localsOf)+len(c.endpointsIn)+len(c.limits)+len(c.peers.vtep) > 0 {
			t.Fatalf("something is left of %q", value)
		}
	})
}
