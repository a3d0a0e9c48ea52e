package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

func infraValue(tenant string) string {
	return `{"tenant":"` + tenant + `","networkName":"contivh1","nwType":"infra","pktTagType":"vxlan","pktTag":9,"extPktTag":19,` +
		`"subnetIP":"10.9.0.0","subnetLen":24,"gateway":"10.9.0.254"}`
}

func TestTheHostsOwnEndpointIsReportedWithoutAnyPod(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(mastercfg.GlobalConfigKey, globalValue, vrfKey("blue"), `{"vrf":1}`, netKey("contivh1.blue"), infraValue("blue"))
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	id := mastercfg.EndpointID("contivh1.blue", me)
	revision := store.put(epKey(id), epValue("contivh1.blue", me, "10.9.0.1"))
	if _, err := a.Await(t.Context(), id, revision); err != nil { // the record is known before the port exists
		t.Fatal(err)
	}
	expectObjects(t, driver, "the record", "network contivh1.blue", "endpoint "+id)
	if _, err := a.PreparePort(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ServeHost(t.Context(), id, revision); err != nil {
		t.Fatal(err)
	}
	eventually(t, "report", func() error {
		_, err := store.db.Get(t.Context(), mastercfg.OperEndpointPrefix+id)
		return err
	})
}

// The host has an interface in each infra network; a route through the gateway of one would be a second path to
// another.
func TestAHostIsNotLedIntoInfraNetworks(t *testing.T) {
	n := blueHere(t).
		put(netKey("contivh1.blue"), infraValue("blue")).
		put(netKey("contivVxGW.blue"), `{"tenant":"blue","networkName":"contivVxGW","nwType":"infra","pktTagType":"vxlan","pktTag":8,"extPktTag":18,`+
			`"subnetIP":"10.9.1.0","subnetLen":24,"gateway":"10.9.1.254"}`).
		put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`)
	networks := n.cache.hostAccess().Networks
	if len(networks) != 2 {
		t.Fatalf("%+v", networks)
	}
	for _, in := range networks {
		if diff := cmp.Diff([]string{"10.1.0.0/16"}, texts(in.Reached)); diff != "" {
			t.Errorf("%s: %s", in.Network.ID, diff)
		}
	}
}

// changed reports, once, whether the host's configuration may have changed.
func (n *node) changed() bool {
	defer func() { n.cache.hostDirty = false }()
	return n.cache.hostDirty
}

func TestAHostReachesTheOtherNetworksOfItsTenant(t *testing.T) {
	n := blueHere(t).
		put(netKey("web.red"), netValue("red", `,"pktTag":2,"extPktTag":12`)).
		put(netKey("island.blue"), `{"tenant":"blue","pktTagType":"vxlan","pktTag":3,"extPktTag":13,"subnetIP":"10.3.0.0","subnetLen":16}`).
		put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`)
	n.changed()
	n.put(epKey("web.blue-3"), epValue("web.blue", me, "10.1.0.4"))
	if n.changed() {
		t.Error("a pod concerns the host")
	}
	n.put(netKey("contivh1.blue"), infraValue("blue"))
	if !n.changed() {
		t.Error("an infra network does not concern the host")
	}
	got := n.cache.hostAccess()
	if len(got.Networks) != 1 || got.Networks[0].Network.ID != "contivh1.blue" || got.Networks[0].Endpoint != nil {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff([]string{"10.1.0.0/16"}, texts(got.Networks[0].Reached)); diff != "" {
		t.Error(diff)
	}
	n.put(epKey("contivh1.blue-"+me), epValue("contivh1.blue", me, "10.9.0.1"))
	if got := n.cache.hostAccess(); !n.changed() || got.Networks[0].Endpoint == nil || got.Networks[0].Endpoint.IPAddress != "10.9.0.1" {
		t.Errorf("with an endpoint: %+v", got)
	}
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`)
	if reached := n.cache.hostAccess().Networks[0].Reached; len(reached) > 0 {
		t.Errorf("bridged networks are reached through a gateway: %v", reached)
	}
	n.del(netKey("contivh1.blue"))
	got = n.cache.hostAccess()
	if !n.changed() || len(got.Networks) != 0 || len(got.Released) != 1 || got.Released[0].ID != "contivh1.blue-"+me {
		t.Errorf("the network has gone: %+v", got)
	}
}

// Kubernetes puts the primary address of each IP family first; the host is notified when they change.
func TestAHostIsToldByWhichAddressesKubernetesKnowsIt(t *testing.T) {
	n := blueHere(t)
	n.changed()
	for _, known := range []struct{ addresses, want string }{
		{`"192.0.2.1","192.0.2.9","2001:db8::1","2001:db8::9"`, "[192.0.2.1 2001:db8::1]"}, {`"2001:db8::1"`, "[2001:db8::1]"}, {"", "[]"},
	} {
		n.put(mastercfg.K8sNodePrefix+me, `{"addresses":[`+known.addresses+`]}`).put(mastercfg.K8sNodePrefix+"other", `{"addresses":["192.0.2.2"]}`)
		if got := fmt.Sprint(n.cache.hostAccess().Primary); got != known.want || !n.changed() {
			t.Errorf("%s: %s, want %s", known.addresses, got, known.want)
		}
	}
}

func texts(list []netip.Prefix) (all []string) {
	for p := range slices.Values(list) {
		all = append(all, p.String())
	}
	return all
}

func TestTheWayOutFollowsTheGlobalSettings(t *testing.T) {
	n := newNode(t)
	n.cache.outside = true
	global := func(mode, subnet string) *node {
		return n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"`+mode+`","pvt-subnet":"`+subnet+`"}`)
	}
	global("routing", "172.19.0.0/16").expect("routed", "+outside "+OutsideID)
	o := n.cache.hostAccess().Outside
	if o == nil || o.MAC != [6]byte{2, 2, 172, 19, 0xff, 0xfe} || o.Prefix != netip.MustParsePrefix("172.19.0.0/16") {
		t.Fatalf("%+v", o)
	}
	global("routing", "172.19.0.0/16").expect("the same again")
	global("routing", "10.77.0.0/16").expect("another subnet", "+outside "+OutsideID)
	global("bridge", "10.77.0.0/16").expect("bridged", "-outside "+OutsideID)
	if n.cache.hostAccess().Outside == nil {
		t.Error("the host's side goes in bridged mode")
	}
	global("routing", "10.77.0.0/24").expect("a subnet that makes no sense")
	if n.cache.hostAccess().Outside != nil {
		t.Error("the host's side has a subnet that makes no sense")
	}
	n.cache.outside = false
	global("routing", "172.19.0.0/16").expect("without a way out")
}

func TestNodesAreKnownFromTheRegistry(t *testing.T) {
	n := newNode(t)
	agentKey, masterKey := agentPrefix+"192.0.2.1:9002", masterPrefix+"192.0.2.2:9998"
	for _, step := range []struct {
		key, value, why string
		nodes           []string
		ports           []uint16
		changed         bool
	}{
		{agentKey, `{"HostAddr":"192.0.2.1","Port":9002,"Hostname":"other"}`, "an agent", []string{"192.0.2.1"}, nil, true},
		{agentKey, `{"HostAddr":"192.0.2.1","Port":9002,"Hostname":"other","Addresses":["192.0.2.1","2001:db8::9"]}`, "its other addresses", []string{"192.0.2.1", "2001:db8::9"}, nil, true},
		{vtepKey("198.51.100.1"), `{"HostAddr":"198.51.100.1","Port":4789,"Hostname":"other"}`, "its VTEP", []string{"192.0.2.1", "198.51.100.1", "2001:db8::9"}, nil, true},
		{agentKey, `{"HostAddr":"192.0.2.1","Port":9002,"Hostname":"other","Addresses":["2001:db8::8","192.0.2.1"]}`, "one for another", []string{"192.0.2.1", "198.51.100.1", "2001:db8::8"}, nil, true},
		{agentKey, `{"HostAddr":"192.0.2.1","Port":9002,"Hostname":"other","Addresses":["2001:db8::8"]}`, "its own is among them anyhow", []string{"192.0.2.1", "198.51.100.1", "2001:db8::8"}, nil, false},
		{agentKey, `{"HostAddr":"192.0.2.1","Port":9002,"Hostname":"other","Addresses":["2001:db8::8","fe80::1%} \\n flush ruleset","0.0.0.0","ff02::1"]}`, "what is no address of one host", []string{"192.0.2.1", "198.51.100.1", "2001:db8::8"}, nil, false},
		{masterKey, `{"HostAddr":"192.0.2.2","Port":9998}`, "a netmaster", []string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "2001:db8::8"}, []uint16{9998}, true},
		{masterKey, `{"HostAddr":"192.0.2.2","Port":9998,"Role":"leader"}`, "it leads", []string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "2001:db8::8"}, []uint16{9998}, false},
		{masterKey, `{"HostAddr":"192.0.2.2","Port":9998,"Ports":[10000,443],"Role":"leader"}`, "it has other listeners", []string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "2001:db8::8"}, []uint16{443, 9998, 10000}, true},
		{agentKey, `{"HostAddr":"2001:db8::8","Port":9002,"Ports":[6443],"Hostname":"other","Addresses":["192.0.2.1"]}`, "it is reached at another one of them", []string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "2001:db8::8"}, []uint16{443, 9998, 10000}, true},
	} {
		n.put(step.key, step.value)
		got := n.cache.hostAccess()
		var nodes []string
		for _, a := range got.Nodes {
			nodes = append(nodes, a.String())
		}
		if diff := cmp.Diff(step.nodes, nodes) + cmp.Diff(step.ports, got.MasterPorts); diff != "" {
			t.Errorf("%s: %s", step.why, diff)
		}
		if changed := n.changed(); changed != step.changed {
			t.Errorf("%s: concerns the host: %v", step.why, changed)
		}
	}
	n.put(agentKey, `{"HostAddr":"2001:db8::8","Port":9002,"REST":9191,"Hostname":"other","Addresses":["192.0.2.1"]}`)
	own := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9191"), netip.MustParseAddrPort("[2001:db8::8]:9191")}
	if got := n.cache.hostAccess(); !n.changed() || !slices.Equal(got.AgentPorts, own) || len(got.MasterPorts) != 3 {
		t.Errorf("the port of its REST server is not closed there, or elsewhere: %v, %v", got.AgentPorts, got.MasterPorts)
	}
	n.del(agentKey, masterKey)
	if got := n.cache.hostAccess(); len(got.Nodes) != 4 || len(got.MasterPorts) != 3 || !slices.Equal(got.Reached, []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::8")}) {
		t.Errorf("their processes are gone, the machines are not: %+v", got)
	}
}

// The address by which an entry reaches a machine is written into rules of all hosts as text, and a zone may be
// any text.
func TestAMachineIsReachedAtAnAddressOfOneHost(t *testing.T) {
	n := newNode(t)
	for _, bad := range []string{"fe80::1%eth0", "fe80::1%} flush ruleset", "0.0.0.0", "ff02::1"} {
		value := []byte(`{"HostAddr":"` + bad + `","Port":9002,"Hostname":"other"}`)
		if err := n.cache.putAgent("a", value, 1); err == nil {
			t.Errorf("an agent at %q", bad)
		}
		if err := n.cache.putMaster("m", value, 1); err == nil {
			t.Errorf("a netmaster at %q", bad)
		}
		if err := n.cache.putPeer("p", value, 1); err == nil {
			t.Errorf("an end of tunnels at %q", bad)
		}
	}
	if got := n.cache.hostAccess().Nodes; len(got) != 0 {
		t.Errorf("machines are at %v", got)
	}
}
