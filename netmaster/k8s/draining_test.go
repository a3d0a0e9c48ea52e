package k8s

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A backend that is removed keeps its connections while its pod lives, in a network of its own or in the node's.
func TestABackendThatLeavesDrainsWhileItsPodLives(t *testing.T) {
	w := newWorld(t)
	w.pod("web-0", "u0", "node1", nil)
	w.pod("web-1", "u1", "node1", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	w.pod("web-2", "u2", "node1", func(p *corev1.Pod) { // a static one
		p.Annotations = map[string]string{mirrorAnnotation: "abc", hashAnnotation: "abc"}
	})
	stop := w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/abc": "default/default-net/"})
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, nil, "10.128.0.4 u0 node1", "192.0.2.1 u1 node1", "10.128.0.5 u2 node1")
	of := func(addresses ...string) []string {
		keys := []string{"default/shop/web"}
		for _, a := range addresses {
			keys = append(keys, "default/shop/web/-/"+a+":80")
		}
		return keys
	}
	w.wantServices(of("10.128.0.4", "10.128.0.5", "192.0.2.1")...)
	w.slice("web-1", "web", "", 80, nil)
	w.eventually(func() error {
		for _, at := range []string{"10.128.0.4:80", "10.128.0.5:80", "192.0.2.1:80"} {
			if b := w.backend(at); b.Ready || b.Serving || !b.Terminating || !b.Until.IsZero() {
				return fmt.Errorf("%+v", b)
			}
		}
		return nil
	})
	w.wantServices(of("10.128.0.4", "10.128.0.5", "192.0.2.1")...)
	stop()
	w.hasAddresses("web-0", "2001:db8::4", "10.128.0.4")
	w.hasAddresses("web-1", "192.0.2.7") // its node now has another one
	stop = w.follow()
	w.wantServices(of("10.128.0.4", "10.128.0.5")...)
	stop()
	w.hasAddresses("web-1")
	w.deletePod("web-0")
	ended, err := w.client.CoreV1().Pods("shop").Get(t.Context(), "web-1", metav1.GetOptions{})
	w.must(ended, err)
	ended.Status.Phase = corev1.PodSucceeded
	w.must(w.client.CoreV1().Pods("shop").Update(t.Context(), ended, metav1.UpdateOptions{}))
	w.follow() // it is checked again now
	w.wantServices(of("10.128.0.5")...)
}

// hasAddresses sets the addresses in a pod's status.
func (w *world) hasAddresses(name string, all ...string) {
	w.Helper()
	pod, err := w.client.CoreV1().Pods("shop").Get(w.Context(), name, metav1.GetOptions{})
	w.must(pod, err)
	pod.Status.PodIPs = nil
	for _, a := range all {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a})
	}
	w.must(w.client.CoreV1().Pods("shop").UpdateStatus(w.Context(), pod, metav1.UpdateOptions{}))
}

// A port must get a name when a second one is added. The service changes first, and its slices later, or never.
// Until then the port keeps the backends of its former name, and changes of these in slices apply to it.
func TestAPortThatGetsAnotherNameIsServedUntilItsSlicesKnow(t *testing.T) {
	w := newWorld(t)
	w.pod("web-0", "u0", "node1", nil)
	w.pod("web-1", "u1", "node1", nil)
	w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "default/default-net/"})
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 8080, nil, "10.128.0.4 u0 node1")
	w.wantServices("default/shop/web", "default/shop/web/-/10.128.0.4:8080")
	is := func(port, at string, terminating bool) {
		t.Helper()
		w.eventually(func() error {
			var b mastercfg.K8sBackend
			err := w.ledger.View(func(r ledger.Reader) (err error) {
				b, err = ledger.Read[mastercfg.K8sBackend](r, mastercfg.K8sBackendPrefix+"default/shop/web/"+port+"/"+at)
				return err
			})
			if err == nil && (b.Ready == terminating || b.Terminating != terminating) {
				err = fmt.Errorf("%+v", b)
			}
			return err
		})
	}
	w.service("web", nil, "http=80", "https=443")
	w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.4:8080")
	is("http", "10.128.0.4:8080", false)
	w.slice("web-1", "web", "", 8080, nil, "10.128.0.4 u0 node1", "10.128.0.5 u1 node1") // another backend is added meanwhile
	w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.4:8080", "default/shop/web/http/10.128.0.5:8080")
	w.service("web", nil, "www=80", "https=443") // and once more
	w.wantServices("default/shop/web", "default/shop/web/www/10.128.0.4:8080", "default/shop/web/www/10.128.0.5:8080")
	is("www", "10.128.0.5:8080", false)
	w.slice("web-1", "web", "www", 8081, nil, "10.128.0.4 u0 node1")
	w.wantServices("default/shop/web", "default/shop/web/www/10.128.0.4:8080", "default/shop/web/www/10.128.0.4:8081", "default/shop/web/www/10.128.0.5:8080")
	is("www", "10.128.0.4:8081", false)
	is("www", "10.128.0.4:8080", true)
	w.service("web", nil, "again=80") // its slices never follow
	w.wantServices("default/shop/web", "default/shop/web/again/10.128.0.4:8080", "default/shop/web/again/10.128.0.4:8081", "default/shop/web/again/10.128.0.5:8080")
	is("again", "10.128.0.4:8081", false)
	is("again", "10.128.0.4:8081", true) // after the grace period; its connections continue
	w.service("web", nil, "other=81")
	w.wantServices("default/shop/web")
}

func TestAFormerNameIsOfAPortOnlyWhileNoOtherPortHasIt(t *testing.T) {
	ports := func(texts ...string) (all []mastercfg.K8sServicePort) {
		for _, text := range texts {
			p := mastercfg.K8sServicePort{}
			fmt.Sscanf(text, "%s %s %d", &p.Name, &p.Protocol, &p.Port)
			all = append(all, p)
		}
		return all
	}
	for what, c := range map[string]struct {
		steps [][]mastercfg.K8sServicePort
		want  map[portID][]string
	}{
		"nothing changes":      {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("a TCP 80")}, map[portID][]string{}},
		"another name":         {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("b TCP 80")}, map[portID][]string{{"b", "TCP"}: {"a"}}},
		"and then another one": {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("b TCP 80"), ports("c TCP 80", "d TCP 81")}, map[portID][]string{{"c", "TCP"}: {"b", "a"}}},
		"and back":             {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("b TCP 80"), ports("a TCP 80")}, map[portID][]string{{"a", "TCP"}: {"b"}}},
		"two change names":     {[][]mastercfg.K8sServicePort{ports("a TCP 80", "b TCP 81"), ports("b TCP 80", "a TCP 81")}, map[portID][]string{}},
		"another number":       {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("b TCP 81")}, map[portID][]string{}},
		"another protocol":     {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("b UDP 80")}, map[portID][]string{}},
		"of another protocol":  {[][]mastercfg.K8sServicePort{ports("a TCP 80", "x UDP 80"), ports("b TCP 80", "a UDP 80")}, map[portID][]string{{"b", "TCP"}: {"a"}, {"a", "UDP"}: {"x"}}},
		"a port takes it":      {[][]mastercfg.K8sServicePort{ports("a TCP 80"), ports("b TCP 80"), ports("b TCP 80", "a TCP 81")}, map[portID][]string{}},
	} {
		f := formerNames{}
		for i, now := range c.steps[1:] {
			for range 2 { // also if writing it failed
				f.of, _ = f.after(c.steps[i], now)
			}
		}
		if !reflect.DeepEqual(f.of, c.want) {
			t.Errorf("%s: %v, want %v", what, f.of, c.want)
		}
	}
}

// A backend without a pod keeps its connections while its address is a node's, and otherwise until a time that the
// next leader respects. The API server is one: it leaves its slice before it ends.
func TestABackendWithoutAPodThatLeavesDrains(t *testing.T) {
	w := newWorld(t)
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}, metav1.CreateOptions{}))
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, nil, "192.0.2.1", "198.51.100.9")
	stop := w.follow()
	both := []string{"default/shop/web", "default/shop/web/-/192.0.2.1:80", "default/shop/web/-/198.51.100.9:80"}
	w.wantServices(both...)
	begin := time.Now()
	w.slice("web-1", "web", "", 80, nil)
	w.eventually(func() error {
		node, other := w.backend("192.0.2.1:80"), w.backend("198.51.100.9:80")
		if !node.Terminating || node.Ready || !node.Until.IsZero() || !other.Terminating || other.Ready ||
			other.Until.Before(begin.Add(drainsMost-time.Second)) || other.Until.After(time.Now().Add(drainsMost)) {
			return fmt.Errorf("%+v, %+v", node, other)
		}
		return nil
	})
	stop()

	before := w.backend("198.51.100.9:80")
	before.Until = before.Until.Add(-drainsMost / 2) // as of a leader half an hour ago
	write := func() {
		w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
			return ledger.Write(tx, mastercfg.K8sBackendKey("default", "shop", "web", "", before.Address), before)
		}))
	}
	write()
	stop = w.follow()
	w.slice("web-1", "web", "", 80, nil, "203.0.113.3")
	w.wantServices(append([]string{"default/shop/web/-/203.0.113.3:80"}, both...)...)
	if now := w.backend("198.51.100.9:80"); !now.Until.Equal(before.Until) {
		t.Errorf("until %v, was %v", now.Until, before.Until)
	}
	stop()

	before.Until = begin // the time has passed
	write()
	stop = w.follow()
	w.wantServices("default/shop/web", "default/shop/web/-/192.0.2.1:80", "default/shop/web/-/203.0.113.3:80")
	w.slice("web-1", "web", "", 80, nil, "192.0.2.1", "203.0.113.3") // it returns
	w.eventually(func() error {
		if b := w.backend("192.0.2.1:80"); !b.Ready || b.Terminating {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
	stop()
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.follow()
	w.wantServices()
}

func TestATimeThatAWrongClockHasNotedCountsForNoLonger(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	latest := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // an hour later
	for _, c := range []struct{ noted, want time.Time }{
		{time.Time{}, latest}, {latest, latest}, {latest.Add(time.Second), latest}, {latest.Add(-time.Second), latest.Add(-time.Second)}, {now.Add(-time.Hour), now.Add(-time.Hour)},
	} {
		if got := drainsUntil(c.noted, now); got != c.want {
			t.Errorf("noted %v: until %v, want %v", c.noted, got, c.want)
		}
	}
}

// Kubernetes updates a slice when a pod becomes ready or unready, and not when it ends. With
// publishNotReadyAddresses it remains there as ready, while its address may be assigned to another pod.
func TestPodsThatHaveEndedServeNobody(t *testing.T) {
	w := newWorld(t)
	run := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase, p.Labels = phase, map[string]string{"app": "web"} }
	}
	w.pod("web", "u1", "node1", run(corev1.PodRunning))
	w.service("web", func(s *corev1.Service) {
		s.Spec.PublishNotReadyAddresses, s.Spec.Selector = true, map[string]string{"app": "web"}
	}, "http=80")
	w.service("other", nil, "http=80")
	w.slice("web-1", "web", "http", 80, nil, "10.128.0.9 u1 node1")
	w.slice("other-1", "other", "http", 80, nil, "10.128.0.9 u1 node1")
	w.follow()
	w.wantServices("default/shop/other", "default/shop/web", "default/shop/other/http/10.128.0.9:80", "default/shop/web/http/10.128.0.9:80")
	w.change("web", run(corev1.PodFailed))
	w.wantServices("default/shop/other", "default/shop/web", "default/shop/other/http/10.128.0.9:80")
	w.slice("other-1", "other", "http", 81, nil, "10.128.0.9 u1 node1")
	w.wantServices("default/shop/other", "default/shop/web")
}
