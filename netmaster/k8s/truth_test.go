package k8s

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/tiers"
	"github.com/contiv/netplugin/test/k8s/netpol"
)

// Written rules mean what the API's documentation specifies for policies: hundreds of policies, each derived from
// another, every pod to every other, against an oracle without classes and rules.
func TestWhatIsWrittenMeansWhatPoliciesSay(t *testing.T) {
	seed := rand.Uint64()
	truth(t, seed, 240)
}

// truth compares a number of steps of one world.
func truth(t *testing.T, seed uint64, steps int) {
	w, engine := netpol.NewWorld(), classes.New()
	for i := range w.Pods {
		w.Pods[i].Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte(i % 3), byte(i + 2)}), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+2))}
	}
	state := tiers.State{Classes: map[uint16]mastercfg.K8sClass{}, Policies: map[string]mastercfg.K8sPolicy{}}
	policies := map[string]bool{} // that the engine has
	ends, wrong := map[string]tiers.End{}, 0
	w.Steps(rand.New(rand.NewPCG(seed, 0)), steps, func(step int) {
		tellWorld(t, engine, w, policies)
		changes := engine.Take()
		engine.Written(changes)
		for number, class := range changes.Classes {
			if delete(state.Classes, number); class != nil {
				state.Classes[number] = *class
			}
		}
		for id, policy := range changes.Policies {
			if delete(state.Policies, id); policy != nil {
				state.Policies[id] = *policy
			}
		}
		for name, class := range changes.Pods {
			ends[name] = tiers.End{Judged: true, Classed: true, Class: class.Number}
		}
		for _, from := range w.Pods {
			for _, to := range w.Pods {
				for _, protocol := range netpol.Protocols {
					for _, port := range netpol.Ports {
						for _, v6 := range []bool{false, true} {
							c := tiers.Connection{From: ends[from.Namespace+"/"+from.Name], To: ends[to.Namespace+"/"+to.Name], Protocol: protocols[corev1.Protocol(protocol)], Port: uint16(port)}
							c.From.Address, c.To.Address = from.Address(v6), to.Address(v6)
							out, in, want := state.Out(c), state.In(c), w.Allows(from, to, protocol, port, v6)
							if (out.Allowed && in.Allowed) == want {
								continue
							}
							if wrong++; wrong < 5 {
								policies, _ := json.Marshal(w.Policies) // as the API server gets it
								t.Errorf("seed %d, step %d: %s/%s to %s/%s, %s %d, IPv6 %v: %+v, %+v, want %v\n%s\nrules %+v", seed, step,
									from.Namespace, from.Name, to.Namespace, to.Name, protocol, port, v6, out, in, want, policies, state.Policies)
							}
						}
					}
				}
			}
		}
	})
}

// tellWorld passes all objects to the engine, as the leader does after a change that it has missed.
func tellWorld(t *testing.T, engine *classes.Engine, w *netpol.World, policies map[string]bool) {
	for name, labels := range w.Namespaces {
		engine.SetNamespace(name, labels)
	}
	gone := maps.Clone(policies)
	for _, p := range w.Policies {
		id := p.Metadata.Namespace + "/" + p.Metadata.Name
		data, err := json.Marshal(p)
		var policy networkingv1.NetworkPolicy
		if err == nil {
			err = json.Unmarshal(data, &policy)
		}
		meaning, doubts := networkPolicy(&policy)
		if err != nil || len(doubts) > 0 {
			t.Errorf("%s: %v, doubts %q", data, err, doubts)
		}
		engine.SetPolicy(id, meaning)
		policies[id] = true
		delete(gone, id)
	}
	for id := range gone {
		engine.RemovePolicy(id)
		delete(policies, id)
	}
	for _, p := range w.Pods {
		known := classes.Pod{Labels: p.Labels}
		for _, port := range p.Ports {
			known.Ports = append(known.Ports, classes.NamedPort{Name: port.Name, Protocol: protocols[corev1.Protocol(port.Protocol)], Number: uint16(port.ContainerPort)})
		}
		engine.SetPod(p.Namespace, p.Name, known)
	}
}
