package k8s

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// change updates a pod.
func (w *world) change(name string, change func(*corev1.Pod)) {
	w.Helper()
	pods := w.client.CoreV1().Pods("shop")
	pod, err := pods.Get(w.Context(), name, metav1.GetOptions{})
	w.must(pod, err)
	change(pod)
	w.must(pods.Update(w.Context(), pod, metav1.UpdateOptions{}))
}

// told waits for an event of a pod with a reason, and returns how many there are.
func (w *world) told(pod, reason string) (n int) {
	w.Helper()
	w.eventually(func() error {
		list, err := w.client.EventsV1().Events("shop").List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		n = 0
		var reasons []string
		for _, e := range list.Items {
			if reasons = append(reasons, e.Regarding.Name+" "+e.Reason); e.Regarding.Name == pod && e.Reason == reason {
				n++
			}
		}
		if n == 0 {
			return fmt.Errorf("no event %s of %s: %q", reason, pod, reasons)
		}
		return nil
	})
	return n
}

// attached creates the endpoint of a pod in default-net, and sets the pod's address.
func (w *world) attached(pod, node, address, group string) {
	w.Helper()
	w.must(w.ledger.Update(w.Context(), func(tx *ledger.Tx) error {
		_, err := master.NewCooldown(time.Now).CreateEndpoint(tx, &mastercfg.CreateEndpointRequest{TenantName: "default", NetworkName: "default-net", EndpointID: "c-" + pod, EPCommonName: pod,
			ConfigEP: mastercfg.ConfigEP{Container: "c-" + pod, Host: node, IPAddress: address, ServiceName: group}})
		return err
	}))
	w.change(pod, func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: address}} })
}

// wantGroups waits until endpoints are in these groups: "container group".
func (w *world) wantGroups(want ...string) {
	w.Helper()
	w.eventually(func() error {
		var got []string
		err := w.ledger.View(func(r ledger.Reader) error {
			return ledger.ReadEach(r, mastercfg.EndpointPrefix, func(_ string, ep mastercfg.CfgEndpointState) error {
				got = append(got, fmt.Sprintf("%s %s %s %d", ep.EndpointID, ep.IPAddress, ep.EndpointGroupKey, ep.EndpointGroupID))
				return nil
			})
		})
		if slices.Sort(got); err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("endpoints %q, want %q", got, want)
		}
		return err
	})
}

// grouped returns a world with groups front, back and ranged in default-net.
func grouped(t *testing.T) *world {
	w := newWorld(t)
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		network := &contivmodel.Network{TenantName: "default", NetworkName: "default-net", Encap: "vxlan", Subnet: "10.128.0.0/14", Gateway: "10.128.0.1"}
		record := mastercfg.CfgNetworkState{ID: "default-net.default", Tenant: "default", NetworkName: "default-net", PktTagType: "vxlan"}
		if err := resources.InitNetwork(&record, network.Subnet, network.Gateway); err != nil {
			return err
		}
		if err := errors.Join(ledger.Write(tx, mastercfg.NetworkPrefix+record.ID, record), master.Put(tx, network)); err != nil {
			return err
		}
		for _, g := range []*contivmodel.EndpointGroup{{GroupName: "front"}, {GroupName: "back"}, {GroupName: "ranged", IPPool: "10.128.7.1-10.128.7.9"}} {
			g.TenantName, g.NetworkName = "default", "default-net"
			if _, err := master.DeriveGroup(tx, g); err != nil {
				return err
			}
			if err := master.Put(tx, g); err != nil {
				return err
			}
		}
		return nil
	}))
	return w
}

func TestAPodMovesToAnotherGroupAndKeepsItsAddress(t *testing.T) {
	w := grouped(t)
	w.follow()
	inGroup := func(group string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{mastercfg.GroupLabel: group} }
	}
	w.pod("web", "u0", "node1", inGroup("front"))
	w.want(map[string]string{"node1/u0": "default/default-net/front"})
	w.attached("web", "node1", "10.128.0.5", "front")
	w.change("web", inGroup("back"))
	w.wantGroups("c-web 10.128.0.5 back:default 2")
	w.want(map[string]string{"node1/u0": "default/default-net/back"})
	w.told("web", "GroupMoved")

	w.change("web", inGroup("ranged")) // has other addresses
	w.told("web", needsRestart)
	w.change("web", inGroup("nowhere"))
	w.told("web", "GroupNotFound")
	w.change("web", func(p *corev1.Pod) { p.Annotations = map[string]string{mastercfg.NetworkLabel: "other"} })
	w.wantGroups("c-web 10.128.0.5 back:default 2")

	w.change("web", func(p *corev1.Pod) { p.Labels, p.Annotations = nil, nil })
	w.wantGroups("c-web 10.128.0.5  0")
	// The namespace's group now applies to it.
	namespaces := w.client.CoreV1().Namespaces()
	shop, err := namespaces.Get(t.Context(), "shop", metav1.GetOptions{})
	w.must(shop, err)
	shop.Annotations = map[string]string{mastercfg.GroupLabel: "front"}
	w.must(namespaces.Update(t.Context(), shop, metav1.UpdateOptions{}))
	w.wantGroups("c-web 10.128.0.5 front:default 1")
}

// Another refused request of a running pod is reported, and does not keep it in its group.
func TestAPodMovesToAnotherGroupWhateverElseIsRefused(t *testing.T) {
	w := grouped(t)
	w.follow()
	in := func(group string, annotations map[string]string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels, p.Annotations = map[string]string{mastercfg.GroupLabel: group}, annotations
		}
	}
	w.pod("web", "u0", "node1", in("front", nil))
	w.want(map[string]string{"node1/u0": "default/default-net/front"})
	w.attached("web", "node1", "10.128.0.5", "front")
	ids, next := map[string]int{"front": 1, "back": 2}, map[string]string{"front": "back", "back": "front"}
	group := "front"
	moves := func(reason string, annotations map[string]string) {
		t.Helper()
		group = next[group]
		w.change("web", in(group, annotations))
		w.wantGroups(fmt.Sprintf("c-web 10.128.0.5 %s:default %d", group, ids[group]))
		w.want(map[string]string{"node1/u0": "default/default-net/" + group})
		w.told("web", reason)
	}
	moves("BandwidthInvalid", map[string]string{ingressAnnotation: "fast"})
	moves("ProfileNotFound", map[string]string{mastercfg.ProfileAnnotation: "missing"})
	moves("AddressInvalid", map[string]string{mastercfg.IPv4Annotation: "10.9.0.5"})
	moves(needsRestart, map[string]string{mastercfg.IPv4Annotation: "10.128.0.77"})
	w.put(&contivmodel.Tenant{TenantName: "default", Namespaces: "others"})
	moves("TenantNotAllowed", nil)
}

// The change may arrive between the answer to the pod's ADD and the record of its address.
func TestAPodThatWasAttachedInItsFormerGroupIsMoved(t *testing.T) {
	w := grouped(t)
	w.follow()
	w.pod("web", "u0", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{mastercfg.GroupLabel: "back"} })
	w.want(map[string]string{"node1/u0": "default/default-net/back"})
	w.attached("web", "node1", "10.128.0.5", "front")
	w.wantGroups("c-web 10.128.0.5 back:default 2")
}

func TestAnAddressThatSomebodyHasIsNoPodsUntilItIsFree(t *testing.T) {
	w := grouped(t)
	w.pod("first", "u0", "node1", nil)
	w.attached("first", "node1", "10.128.0.5", "")
	asking := func(address string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{mastercfg.IPv4Annotation: address} }
	}
	w.pod("second", "u1", "node1", asking("10.128.0.5"))
	w.pod("outside", "u2", "node1", asking("10.9.0.5"))
	w.pod("wrong", "u3", "node1", asking("fd00::5"))
	w.pod("free", "u4", "node1", asking("10.128.0.77"))
	w.pod("hard", "u5", "node1", func(p *corev1.Pod) { p.Annotations = map[string]string{macAnnotation: "02:02:0a:80:00:05"} })
	w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "AddressInUse", "node1/u2": "AddressInvalid", "node1/u3": "AddressInvalid", "node1/u4": "default/default-net/", "node1/u5": "AddressInvalid"})
	var record mastercfg.K8sPod
	w.must(nil, w.ledger.View(func(r ledger.Reader) (err error) {
		record, err = ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", "u1"))
		return err
	}))
	if !strings.Contains(record.Message, "first on node node1") {
		t.Errorf("the holder is not named: %s", record.Message)
	}
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		_, err := master.DeleteEndpoint(tx, "default-net.default-c-first")
		return err
	}))
	w.change("second", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x"} }) // triggers the check without a wait
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "default/default-net/", "node1/u2": "AddressInvalid", "node1/u3": "AddressInvalid", "node1/u4": "default/default-net/", "node1/u5": "AddressInvalid"})
	w.change("free", asking("10.128.0.78"))
	w.told("free", needsRestart)
}

// A namespace's tenant and network apply to new pods, its group to all.
func TestAPodThatLivesStaysWhateverItsNamespaceSays(t *testing.T) {
	networks := map[string]string{"front": "net", "back": "net", "far": "other"}
	before := mastercfg.K8sPod{Tenant: "red", Network: "net", Group: "front"}
	ungrouped := mastercfg.K8sPod{Tenant: "red", Network: "net"}
	words := func(tenant, network, group string) map[string]string {
		return map[string]string{mastercfg.TenantLabel: tenant, mastercfg.NetworkLabel: network, mastercfg.GroupLabel: group}
	}
	for name, c := range map[string]struct {
		pod, namespace map[string]string
		before         mastercfg.K8sPod
		want           place
	}{
		"nothing has changed":                {nil, words("red", "net", "front"), before, place{"red", "net", "front"}},
		"another network":                    {nil, words("red", "other", ""), ungrouped, place{"red", "net", ""}},
		"no network any more":                {nil, words("red", "", ""), ungrouped, place{"red", "net", ""}},
		"another tenant":                     {nil, words("blue", "net", "far"), before, place{"red", "net", "front"}},
		"another group":                      {nil, words("red", "net", "back"), before, place{"red", "net", "back"}},
		"a group of another network":         {nil, words("red", "net", "far"), before, place{"red", "other", "far"}}, // refused later
		"no group any more":                  {nil, words("red", "net", ""), before, place{"red", "net", ""}},
		"the pod says another network":       {words("", "other", ""), words("red", "net", ""), ungrouped, place{"red", "other", ""}},
		"the pod says another group":         {words("", "", "back"), words("red", "", "front"), before, place{"red", "net", "back"}},
		"the pod of an allowed tenant stays": {words("red", "net", ""), words("blue", "net", "far"), ungrouped, place{"red", "net", ""}},
		"the pod says its namespace's":       {words("blue", "", ""), words("blue", "", ""), ungrouped, place{"blue", "default-net", ""}}, // refused later
	} {
		pod, namespace := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.pod}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: c.namespace}}
		got, err := placement(pod, namespaceAtPlacement(pod, namespace, c.before), ByNamespace, func(_, group string) (string, error) { return networks[group], nil })
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestARefusedPodIsLookedAtLessAndLessOften(t *testing.T) {
	created := time.Unix(1_000_000, 0)
	for age, want := range map[time.Duration]time.Duration{-time.Hour: 3 * time.Second, 0: 3 * time.Second, 5 * time.Minute: 30 * time.Second, 48 * time.Hour: time.Minute} {
		if got := refusedAgain(created, created.Add(age)); got != want {
			t.Errorf("of an age of %v: %v, want %v", age, got, want)
		}
	}
}
