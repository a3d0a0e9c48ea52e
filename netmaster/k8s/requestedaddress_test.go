package k8s

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// asking returns a change that requests an address, and a group unless that is empty.
func asking(address, group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{mastercfg.IPv4Annotation: address}
		if group != "" {
			p.Annotations[mastercfg.GroupLabel] = group
		}
	}
}

// An address that no ADD could get is refused when the pod is placed, with a remedy: the rules of the allocator
// apply.
func TestAnAddressThatNobodyHandsOutIsRefused(t *testing.T) {
	w := grouped(t)
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.ServiceLBPrefix+"lb:default", mastercfg.CfgServiceLBState{ID: "lb:default", Tenant: "default", Network: "default-net", IPAddress: "10.128.0.44"})
	}))
	want, messages := map[string]string{}, map[string]string{}
	for uid, c := range map[string]struct{ address, group, reason, message string }{
		"u0": {"10.128.0.0", "", "AddressInvalid", "requested address 10.128.0.0 is reserved or out of range in subnet 10.128.0.0/14"},
		"u1": {"10.131.255.255", "", "AddressInvalid", "requested address 10.131.255.255 is reserved or out of range"},
		"u2": {"10.128.0.1", "", "AddressInvalid", "requested address 10.128.0.1 is reserved or out of range"},
		"u3": {"10.128.0.9", "ranged", "AddressInvalid", "requested address 10.128.0.9 is reserved or out of range in pool 10.128.7.1-10.128.7.9"},
		"u4": {"10.128.7.4", "", "AddressInUse", "requested address 10.128.7.4 is reserved by endpoint group ranged:default"},
		"u7": {"10.99.0.1", "", "AddressInvalid", "address 10.99.0.1 is not in subnet 10.128.0.0/14, whose addresses are 10.128.0.1 to 10.131.255.254"},
		"u5": {"10.128.0.44", "", "AddressInUse", "requested address 10.128.0.44 is used by service lb:default"},
	} {
		w.pod("pod-"+uid, uid, "node1", asking(c.address, c.group))
		want["node1/"+uid], messages[uid] = c.reason, c.message
	}
	w.pod("in-range", "u6", "node1", asking("10.128.7.4", "ranged"))
	want["node1/u6"] = "default/default-net/ranged"
	w.follow()
	w.want(want)
	for uid, message := range messages {
		w.toldThat("pod-"+uid, want["node1/"+uid], "pod shop/pod-"+uid+": "+message)
	}
}

// An address that a pod requests is reserved from its placement on: no other pod is placed with it, and none gets
// it without a request.
func TestAnAddressThatAPodAsksForIsItsOwn(t *testing.T) {
	w := grouped(t)
	w.follow()
	w.pod("first", "u0", "node1", asking("10.128.0.2", "")) // the lowest
	w.want(map[string]string{"node1/u0": "default/default-net/"})
	w.pod("second", "u1", "node2", asking("10.128.0.2", ""))
	w.want(map[string]string{"node1/u0": "default/default-net/", "node2/u1": "AddressInUse"})
	w.toldThat("second", "AddressInUse", "pod shop/second asks for 10.128.0.2, which pod shop/first on node node1 asks for, too")
	w.pod("other", "u2", "node1", nil)
	w.attached("other", "node1", "", "")
	w.wantAddresses("c-other 10.128.0.3")
	w.attached("first", "node1", "10.128.0.2", "")

	// A pod that has finished no longer needs it.
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		_, err := master.DeleteEndpoint(tx, "default-net.default-c-first")
		return err
	}))
	w.change("first", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	w.change("second", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x"} }) // triggers the check without a wait
	w.want(map[string]string{"node1/u0": "default/default-net/", "node2/u1": "default/default-net/", "node1/u2": "default/default-net/"})
}

// A recreated network or group may have another range. A pod that waits to start with an address of the old one is
// placed again, even if it has not changed; a running one keeps its address.
func TestAPodThatHasNotStartedLosesAnAddressThatNobodyHandsOutAnyMore(t *testing.T) {
	w := grouped(t)
	w.follow()
	w.pod("waits", "u0", "node1", asking("10.128.7.4", "ranged"))
	w.pod("outside", "u1", "node1", asking("10.128.0.5", ""))
	w.pod("runs", "u2", "node1", asking("10.128.7.5", "ranged"))
	w.want(map[string]string{"node1/u0": "default/default-net/ranged", "node1/u1": "default/default-net/", "node1/u2": "default/default-net/ranged"})
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.EndpointPrefix+"default-net.default-c-runs", mastercfg.CfgEndpointState{ID: "default-net.default-c-runs", NetID: "default-net.default",
			EndpointID: "c-runs", EPCommonName: "runs", HomingHost: "node1", IPAddress: "10.128.7.5", PodNamespace: "shop", PodUID: "u2"})
	}))
	w.ranged("10.128.7.6-10.128.7.9")
	w.want(map[string]string{"node1/u0": "AddressInvalid", "node1/u1": "default/default-net/", "node1/u2": "default/default-net/ranged"})
	w.toldThat("waits", "AddressInvalid", "pod shop/waits: requested address 10.128.7.4 is reserved or out of range in pool 10.128.7.6-10.128.7.9")
	w.ranged("10.128.7.1-10.128.7.4")
	w.change("waits", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x"} }) // triggers the check without a wait
	w.want(map[string]string{"node1/u0": "default/default-net/ranged", "node1/u1": "default/default-net/", "node1/u2": "default/default-net/ranged"})
}

// An endpoint of the node with an unreadable record does not keep a pod from its requested address.
func TestAnUnreadableEndpointIsNoMatterOfOtherPods(t *testing.T) {
	w := grouped(t)
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		tx.Put(mastercfg.EndpointPrefix+"default-net.default-c-odd", []byte(`{"homingHost":"node1","podUID":7}`))
		return nil
	}))
	w.follow()
	w.pod("asks", "u0", "node1", asking("10.128.7.4", "ranged"))
	w.want(map[string]string{"node1/u0": "default/default-net/ranged"})
}

// ranged recreates group ranged with another range.
func (w *world) ranged(pool string) {
	w.Helper()
	group := &contivmodel.EndpointGroup{TenantName: "default", NetworkName: "default-net", GroupName: "ranged", IPPool: pool}
	for _, step := range []func(*ledger.Tx) error{
		func(tx *ledger.Tx) error {
			master.RemoveGroup(tx, &mastercfg.EndpointGroupState{ID: mastercfg.EndpointGroupID("default", "ranged")})
			master.Drop(tx, group)
			return nil
		},
		func(tx *ledger.Tx) error {
			_, err := master.DeriveGroup(tx, group)
			return errors.Join(err, master.Put(tx, group))
		},
	} {
		w.must(w.ledger.Update(w.Context(), step))
	}
}

// wantAddresses waits until the endpoints have these addresses: "container address".
func (w *world) wantAddresses(want ...string) {
	w.Helper()
	got := map[string]bool{}
	w.must(nil, w.ledger.View(func(r ledger.Reader) error {
		return ledger.ReadEach(r, mastercfg.EndpointPrefix, func(_ string, ep mastercfg.CfgEndpointState) error {
			got[strings.Join([]string{ep.EndpointID, ep.IPAddress}, " ")] = true
			return nil
		})
	}))
	if all := slices.Sorted(maps.Keys(got)); !slices.Equal(all, want) {
		w.Errorf("addresses %q, want %q", all, want)
	}
}
