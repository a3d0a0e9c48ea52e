package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/notify"
)

// A port that another process of the node has, too, or that cannot be opened, is reported with its service or pod
// as long as it is so; the reported epoch of policies remains.
func TestANodeTellsWhoseItsPortsAreThatDoNotServe(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	text := func(record any) string {
		value, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	vip := netip.MustParseAddr("203.0.113.5")
	store.put(append(blueState, mastercfg.K8sEnforcedKey(me), `{"number":3}`, mastercfg.K8sPodKey(me, "u1"), `{"namespace":"shop","name":"db","uid":"u1"}`,
		epKey("web.blue-pod"), strings.Replace(podEndpoint("web.blue", me, "10.1.0.30", "u1"), "{", `{"epCommonName":"db","podNamespace":"shop",`, 1),
		mastercfg.K8sServiceKey("default", "shop", "web"), text(mastercfg.K8sService{Namespace: "shop", Name: "web",
			Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, HealthPort: 30999, ExternalLocal: true, LoadBalancers: []netip.Addr{vip},
			Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080}}}),
		mastercfg.K8sServiceKey("blue", "shop", "web"), text(mastercfg.K8sService{Namespace: "shop", Name: "web", Guest: true,
			Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, HealthPort: 30999,
			Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080}}}))...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	tells := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q are told", want), func() error {
			var told mastercfg.K8sEnforced
			kv, err := store.db.Get(t.Context(), mastercfg.K8sEnforcedKey(me))
			if err == nil {
				err = json.Unmarshal(kv.Value, &told)
			}
			var got []string
			for _, p := range told.Troubles {
				got = append(got, fmt.Sprintf("%s %s/%s %s %s", p.Kind, p.Namespace, strings.TrimSuffix(p.Name+"/"+p.UID, "/"), p.Reason, p.Message[:17]))
			}
			if err == nil && (told.Number != 3 || !slices.Equal(got, want)) {
				err = fmt.Errorf("%d %q", told.Number, got)
			}
			return err
		})
	}
	by := netip.MustParseAddrPort("0.0.0.0:30080")
	a.TellTaken([]TakenPort{{Protocol: "tcp", Port: 30080, By: by}, {Protocol: "udp", Port: 30080, By: by}, {Protocol: "tcp", Port: 80, Endpoint: "web.blue-pod", By: by}})
	a.TellClosed(map[uint16]string{30999: "nobody is told at", 30998: "of no service any more"})
	tells("pod shop/db/u1 HostPortInUse a process listens", "service shop/web FailedToStartServiceHealthcheck nobody is told at", "service shop/web NodePortInUse a process listens")
	a.TellUnreached([]UnreachedPod{{Endpoint: "web.blue-pod", At: netip.MustParseAddr("10.1.0.30"), Why: "x", Unnamed: true}, {Endpoint: "gone", Why: "y"}})
	a.TellTaken([]TakenPort{{Protocol: "tcp", Port: 80, Address: vip, By: by}, {Protocol: "udp", Port: 80, Address: vip, By: by}, {Protocol: "tcp", Port: 30080, Address: vip, By: by}})
	tells("service shop/web FailedToStartServiceHealthcheck nobody is told at", "service shop/web LoadBalancerPortInUse a process listens")
	a.TellTaken([]TakenPort{{Protocol: "tcp", Port: 30080, Leads: "web.blue-pod"}, {Protocol: "tcp", Port: 30080, Leads: "gone"}})
	tells("service shop/web FailedToStartServiceHealthcheck nobody is told at", "service shop/web NodePortInUse pod shop/db has p")
	a.TellTaken(nil)
	tells("service shop/web FailedToStartServiceHealthcheck nobody is told at")
	a.TellClosed(nil)
	tells()
	a.TellPorts("u1", "another pod has it")
	a.TellPorts("u9", "of nobody whom netmaster knows")
	tells("pod shop/db/u1 HostPortConflict another pod has i")
	a.TellPorts("u1", "")
	tells()
}

// A pod may be deleted before its port is free.
func TestAPodThatGoesWithoutItsPortIsToldOfNobody(t *testing.T) {
	n := newNode(t)
	n.put(mastercfg.K8sPodKey(me, "u1"), `{"namespace":"shop","name":"db","uid":"u1"}`).step()
	a := &Agent{cache: n.cache, tell: notify.New(), log: n.cache.log}
	a.TellPorts("u1", "another pod has it")
	if told := a.reportedTroubles(); len(told) != 1 {
		t.Errorf("its pod is here: %v", told)
	}
	n.del(mastercfg.K8sPodKey(me, "u1")).step()
	if told := a.reportedTroubles(); len(told) != 0 {
		t.Errorf("it is gone: %v", told)
	}
	if a.TellPorts("u2", ""); len(a.troubles.refused) != 0 {
		t.Errorf("remembered: %v", a.troubles.refused)
	}
}

// Until the next check, the taken ports may include one of a pod that has gone: it is not reported.
func TestAPortOfAPodThatIsGoneIsToldOfNobody(t *testing.T) {
	const id = "web.blue-pod"
	n := blueHere(t)
	n.put(epKey(id), podEndpoint("web.blue", me, "10.1.0.30", "u1")).step()
	taken := troubles{taken: []TakenPort{{Protocol: "tcp", Port: 80, Endpoint: id}}}
	if got := n.cache.affectedObjects(taken); len(got) != 1 {
		t.Errorf("its pod is here: %v", got)
	}
	n.put(epKey(id), podEndpoint("web.blue", "node2", "10.1.0.30", "u1")).step()
	if got := n.cache.affectedObjects(taken); len(got) != 0 {
		t.Errorf("it is elsewhere: %v", got)
	}
	n.del(epKey(id)).step()
	if got := n.cache.affectedObjects(taken); len(got) != 0 {
		t.Errorf("it is gone: %v", got)
	}
}

// A node's report is one record in the store.
func TestOfManyPortsTheFirstAreTold(t *testing.T) {
	a := &Agent{}
	for i := range 3 * maxTroubles {
		a.troubles.objects = append(a.troubles.objects, mastercfg.K8sTrouble{Kind: mastercfg.K8sOfService, Namespace: "shop", Name: fmt.Sprintf("s%03d", i)})
	}
	if told := a.reportedTroubles(); len(told) != maxTroubles || told[maxTroubles-1].Name != "s049" {
		t.Errorf("%d are told: %v", len(told), told)
	}
}

// Only pods that kubelet probes over the network are affected. Pods without a record are reported only if their
// network was named.
func TestProbesThatDoNotReachTheirPodsAreTold(t *testing.T) {
	const id = "web.blue-pod"
	n := blueHere(t)
	n.put(epKey(id), podEndpoint("web.blue", me, "10.1.0.30", "u1")).step()
	at := netip.MustParseAddr("10.1.0.30")
	named, unnamed := UnreachedPod{Endpoint: id, At: at, Why: "a service has it, too"}, UnreachedPod{Endpoint: id, At: at, Why: "nobody named it", Unnamed: true}
	for _, step := range []struct {
		pod            string // its record; empty: none
		named, unnamed int
	}{
		{"", 1, 0},
		{`{"uid":"u1"}`, 0, 0},
		{`{"uid":"u1","probed":true}`, 1, 1},
	} {
		if step.pod != "" {
			n.put(mastercfg.K8sPodKey(me, "u1"), step.pod).step()
		}
		for _, is := range []struct {
			unreached UnreachedPod
			want      int
		}{{named, step.named}, {unnamed, step.unnamed}} {
			if got := n.cache.affectedObjects(troubles{unreached: []UnreachedPod{is.unreached}}); len(got) != is.want {
				t.Errorf("record %q, %q: %v are told, want %d", step.pod, is.unreached.Why, got, is.want)
			}
		}
	}
	got := n.cache.affectedObjects(troubles{unreached: []UnreachedPod{named, {Endpoint: "gone", At: at}}})
	if len(got) != 1 || got[0].UID != "u1" || got[0].Reason != mastercfg.ProbesNotReached || !strings.Contains(got[0].Message, "10.1.0.30: a service has it, too") {
		t.Errorf("told: %+v", got)
	}
}
