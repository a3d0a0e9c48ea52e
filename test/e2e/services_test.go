package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
)

var serviceChapters = []chapter{
	{"a service is served by the containers with its labels, and each connection by one of them until it ends", aServiceFollowsLabels},
}

const serviceVIP = "10.1.2.200"

func aServiceFollowsLabels(s story) {
	s.tenant("blue")
	s.network("blue", "lan", "10.1.1.0/24")
	s.network("blue", "shop", "10.1.2.0/24")
	clients := []*testbed.Pod{s.pod(0, "client0", "blue", "lan", ""), s.pod(1, "client1", "blue", "lan", "")}
	service := "service create -t blue -s shop -l app=web -ip " + serviceVIP + " -p " + tcpPort + ":80:TCP -p " + echoPort + ":7:UDP web"
	s.netctlForNow(service, "service rm -t blue web")
	web := &testbed.Pod{Name: "web", IP: netip.MustParseAddr(serviceVIP)}

	s.refused(clients[0])

	// Labels in the CNI call.
	one := s.sandbox(0, "one", "blue", "shop", "")
	one.Labels = map[string]string{"app": "web", "tier": "1"}
	s.must(one.Attach(s.ctx))
	s.serve(one)
	s.servedBy(append(clients, one), "one") // on its own node, on another, and by itself

	s.counts(clients[0], one.IP.String())

	// Labels that a container runtime reports. A client's open connections go on.
	two := s.pod(1, "two", "blue", "shop", "")
	s.withoutLoss(clients[1], web, func() {
		s.container("start", two, map[string]string{"app": "web"})
		s.servedBy(append(clients, one, two), "one", "two")
		s.netctl(strings.Fields(service + " --affinity 600")...)
		kept := s.alwaysServedBy(clients[1])
		s.must(clients[1].Node.Netplugin().Kill())
		s.must(clients[1].Node.StartNetplugin())
		s.must(clients[1].Node.WaitReady(s.ctx))
		if again := s.alwaysServedBy(clients[1]); !maps.Equal(kept, again) {
			s.Errorf("a client that keeps its providers had %v and has, after a restart, %v", kept, again)
		}
		s.netctl(strings.Fields(service)...)
		s.servedBy(clients, "one", "two")
		s.container("die", two, nil)
		s.servedBy(clients, "one")
		s.container("start", two, map[string]string{"app": "web"})
		s.servedBy(clients, "one", "two")
	})

	// A provider that is no longer selected but still runs keeps its connections; one that ends does not.
	s.withoutLoss(clients[0], web, func() {
		s.container("start", one, map[string]string{"app": "old"})
		s.container("start", two, map[string]string{"app": "old"})
		s.refused(clients[0])
	})
	s.container("start", two, map[string]string{"app": "web"})
	s.container("die", one, nil)
	s.servedBy(clients, "two")
	s.container("die", two, nil)
	s.refused(clients[1])
}

// container reports an event of a pod's container to the leading netmaster.
func (s story) container(event string, pod *testbed.Pod, labels map[string]string) {
	s.Helper()
	endpoint, _ := s.endpointCounts(pod)
	request := mastercfg.UpdateEndpointRequest{
		Event: event, Tenant: pod.Tenant, Network: pod.Network, Labels: labels, ContainerID: pod.Name,
		EndpointID: strings.TrimPrefix(endpoint, mastercfg.NetworkID(pod.Tenant, pod.Network)+"-"),
	}
	body, err := json.Marshal(request)
	s.must(err)
	s.must(exchange(rootOf(s.bed.Nodes[0]), http.MethodPost, mastercfg.UpdateEndpointPath, string(body)))
}

// servedBy expects that soon every client gets answers from all of the pods and from
// no other, by TCP and by UDP.
func (s story) servedBy(clients []*testbed.Pod, pods ...string) {
	s.Helper()
	s.servedAt(serviceVIP, clients, pods...)
}

// isService has a network of blue get a service with a provider, and clients use it.
func (s story) isService(network, vip string, provider *testbed.Pod, clients ...*testbed.Pod) {
	s.Helper()
	s.netctlForNow("service create -t blue -s "+network+" -l at="+network+" -ip "+vip+" -p "+tcpPort+":"+tcpPort+":TCP -p "+echoPort+":7:UDP of-"+network,
		"service rm -t blue of-"+network)
	s.container("start", provider, map[string]string{"at": network})
	s.servedAt(vip, clients, provider.Name)
}

// servedAt is servedBy at any address.
func (s story) servedAt(vip string, clients []*testbed.Pod, pods ...string) {
	s.Helper()
	s.soon(shortly, func() error {
		for _, client := range clients {
			seen := map[string][]string{}
			for range 12 * len(pods) {
				got, err := ask(s.ctx, client, netip.MustParseAddr(vip), time.Second)
				if err != nil {
					return err
				}
				for _, kind := range []string{"tcp", "udp"} {
					if !slices.Contains(pods, got[kind]) || got["ping"] != "pong" {
						return fmt.Errorf("%s asks and gets %v, want %v", client.Name, got, pods)
					}
					if !slices.Contains(seen[kind], got[kind]) {
						seen[kind] = append(seen[kind], got[kind])
					}
				}
				if len(seen["tcp"]) == len(pods) && len(seen["udp"]) == len(pods) {
					break
				}
			}
			if len(seen["tcp"]) != len(pods) || len(seen["udp"]) != len(pods) {
				return fmt.Errorf("%s is served by %v, want %v", client.Name, seen, pods)
			}
		}
		return nil
	})
}

// alwaysServedBy expects that soon all requests of a client are answered by the same provider, and returns it, for
// TCP and UDP.
func (s story) alwaysServedBy(client *testbed.Pod) (providers map[string]string) {
	s.Helper()
	s.soon(shortly, func() error {
		for i := range 10 { // by chance one time in 512
			got, err := ask(s.ctx, client, netip.MustParseAddr(serviceVIP), time.Second)
			switch {
			case err != nil:
				return err
			case i == 0:
				providers = got
			case !maps.Equal(got, providers):
				return fmt.Errorf("%s is served by %v and then by %v", client.Name, providers, got)
			}
		}
		return nil
	})
	return providers
}

// counts expects that netctl and a client's node soon report packets in both directions between clients and a
// provider.
func (s story) counts(client *testbed.Pod, provider string) {
	s.Helper()
	s.soon(shortly, func() error {
		var shown contivmodel.ServiceLBInspect
		if err := json.Unmarshal([]byte(s.netctl("service", "inspect", "-t", "blue", "web")), &shown); err != nil {
			return err
		}
		if n := shown.Oper.Counters[provider]; n.RxPackets < 4 || n.TxPackets < 4 || n.RxBytes == 0 || n.TxBytes == 0 {
			return fmt.Errorf("netctl tells %+v", shown.Oper)
		}
		var stats map[string]struct {
			SvcStats map[string]struct {
				ProvStats map[string]struct{ PacketsIn, PacketsOut int }
			}
		}
		got, err := agentTells(s.ctx, client.Node, "/svcstats")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(got.body), &stats); err != nil {
			return err
		}
		for _, of := range stats {
			for _, port := range []string{tcpPort + ":TCP", echoPort + ":UDP"} {
				if n := of.SvcStats[serviceVIP+":"+port].ProvStats[provider]; n.PacketsIn == 0 || n.PacketsOut == 0 {
					return fmt.Errorf("%s: node tells %s", port, got.body)
				}
			}
		}
		if len(stats) != 1 {
			return fmt.Errorf("node tells %s", got.body)
		}
		return nil
	})
}

// refused expects that a client's TCP and UDP packets are soon refused, as there are no providers.
func (s story) refused(client *testbed.Pod) {
	s.Helper()
	s.refusedAt(client, serviceVIP)
}

// refusedAt is refused at any address.
func (s story) refusedAt(client *testbed.Pod, vip string) {
	s.Helper()
	s.soon(shortly, func() error {
		for _, way := range []string{"exec 3<>/dev/tcp/" + vip + "/" + tcpPort, "exec 3<>/dev/udp/" + vip + "/" + echoPort + "; echo x >&3; timeout 2 cat <&3"} {
			if out, err := client.Run(s.ctx, "bash", "-c", way+" 2>&1"); err == nil || !strings.Contains(out+err.Error(), "Connection refused") {
				return fmt.Errorf("%s: %q: %s, %v", client.Name, way, out, err)
			}
		}
		return nil
	})
}
