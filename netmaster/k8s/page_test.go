package k8s

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/tiers"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/pages"
)

const page = "../../docs/kubernetes.md"

// The API accepts the examples of the page, and they do what the tables below them say, each together with the
// previous ones.
func TestPoliciesOfThePageDoWhatThePageSays(t *testing.T) {
	manifests, err := pages.Blocks(page, "yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, anyPod := range []bool{false, true} { // the forms that rules about all pods have
		t.Run(fmt.Sprint("about any pod ", anyPod), func(t *testing.T) {
			w := newWorld(t)
			w.served().Store(true)
			w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}, metav1.CreateOptions{}))
			c := w.controller()
			c.cfg.KnowAnyPod = func(context.Context) (map[string]bool, error) { return map[string]bool{"node1": anyPod}, nil }
			w.run(c)
			for _, section := range []string{"Policies", "Policies of the cluster"} {
				i := slices.IndexFunc(manifests, func(s pages.Section) bool { return s.Title == section })
				if i < 0 {
					t.Fatalf("section %s has no manifests", section)
				}
				for manifest := range strings.SplitSeq(manifests[i].Commands, "---\n") {
					w.apply(manifest)
				}
				rows, err := pages.Rows(page, section, "| From | To | Port | |")
				w.must(rows, err)
				for _, row := range rows {
					w.podOfPage(row[0])
					w.podOfPage(row[1])
				}
				w.eventually(func() error {
					var wrong []error
					for _, row := range rows {
						if says := strings.HasPrefix(row[3], "passes"); says == strings.HasPrefix(row[3], "is dropped") {
							wrong = append(wrong, fmt.Errorf("row %q says neither that it passes nor that it is dropped", row))
						} else if passes, err := w.passes(row[0], row[1], row[2]); err != nil || passes != says {
							wrong = append(wrong, fmt.Errorf("%s: %q: passes %v, %v", section, row, passes, err))
						}
					}
					return errors.Join(wrong...)
				})
			}
		})
	}
}

// apply creates a policy from a manifest, which must contain only fields of the API.
func (w *world) apply(manifest string) {
	w.Helper()
	var kind metav1.TypeMeta
	w.must(nil, yaml.Unmarshal([]byte(manifest), &kind))
	switch kind.Kind {
	case "NetworkPolicy":
		var policy networkingv1.NetworkPolicy
		w.must(nil, yaml.UnmarshalStrict([]byte(manifest), &policy))
		w.must(w.client.NetworkingV1().NetworkPolicies(policy.Namespace).Create(w.Context(), &policy, metav1.CreateOptions{}))
	case "ClusterNetworkPolicy":
		var policy v1alpha2.ClusterNetworkPolicy
		w.must(nil, yaml.UnmarshalStrict([]byte(manifest), &policy))
		w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(w.Context(), &policy, metav1.CreateOptions{}))
	default:
		w.Fatalf("nobody knows what to do with\n%s", manifest)
	}
}

// podOfPage creates a pod that the page calls NAMESPACE/NAME, unless it is an address.
func (w *world) podOfPage(called string) {
	w.Helper()
	namespace, name, is := strings.Cut(called, "/")
	if !is {
		return
	}
	named := map[string]string{"kubernetes.io/metadata.name": namespace}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: named}}
	if _, err := w.client.CoreV1().Namespaces().Update(w.Context(), n, metav1.UpdateOptions{}); err != nil {
		w.must(w.client.CoreV1().Namespaces().Create(w.Context(), n, metav1.CreateOptions{}))
	}
	if _, err := w.client.CoreV1().Pods(namespace).Get(w.Context(), name, metav1.GetOptions{}); err == nil {
		return
	}
	w.must(w.client.CoreV1().Pods(namespace).Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(namespace + "-" + name), Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{NodeName: "node1"}}, metav1.CreateOptions{}))
}

// passes reports whether the tiers allow a TCP connection, by the written rules.
func (w *world) passes(from, to, port string) (passes bool, err error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return false, err
	}
	about := tiers.Connection{Protocol: 6, Port: uint16(number)}
	state := tiers.State{Classes: map[uint16]mastercfg.K8sClass{}, Policies: map[string]mastercfg.K8sPolicy{}}
	err = w.ledger.View(func(r ledger.Reader) error {
		if about.From, err = endOfPage(r, from); err != nil {
			return err
		}
		if about.To, err = endOfPage(r, to); err != nil {
			return err
		}
		for _, end := range []tiers.End{about.From, about.To} {
			if end.Class == 0 {
				continue
			}
			if state.Classes[end.Class], err = ledger.Read[mastercfg.K8sClass](r, mastercfg.K8sClassKey(end.Class)); err != nil {
				return err
			}
		}
		return ledger.ReadEach(r, mastercfg.K8sPolicyPrefix, func(key string, policy mastercfg.K8sPolicy) error {
			state.Policies[strings.TrimPrefix(key, mastercfg.K8sPolicyPrefix)] = policy
			return nil
		})
	})
	return err == nil && state.Out(about).Allowed && state.In(about).Allowed, err
}

func endOfPage(r ledger.Reader, called string) (end tiers.End, err error) {
	namespace, name, is := strings.Cut(called, "/")
	if !is {
		end.Address, err = netip.ParseAddr(called)
		return end, err
	}
	pod, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", namespace+"-"+name))
	if err == nil && !pod.Classed {
		err = errors.New("its class is not known yet")
	}
	return tiers.End{Judged: true, Classed: pod.Classed, Class: pod.Class, Address: netip.MustParseAddr("10.128.0.1")}, err
}
