package pipeline

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// shared are addresses of a service outside of all tenants' networks.
var shared = []netip.Addr{addr("10.96.0.10"), addr("fd00:96::10")}

// Endpoints of another tenant use a service with providers on their node, one of them with the client's own
// address, and on another one. The rules of both tenants apply.
func TestAServiceAnswersEndpointsOfOtherTenants(t *testing.T) {
	c := startCluster(t, web1, knownOutside(red1), db1, web2)
	s := serving(FromPods|FromTenants, addressesOf(web1, web2), shared...)
	c.withOutside(web1, s)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	client := c.pod(red1)
	for i, at := range shared {
		own := OutsideAddress(wayOut.Prefixes()[i], client.port)
		for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
			c.askedAs(client, at, kind, port, func(string) netip.Addr { return own }, nil, web1, web2)
			for _, text := range []string{strings.Repeat("long", 1000), "long"} {
				for _, got := range client.requestsTimes(3, at, kind, port, text) {
					if !strings.Contains(got, own.String()) {
						t.Errorf("%s asks %s by %s with %d bytes: %q", client.ID, at, kind, len(text), got)
					}
				}
			}
		}
		c.served(db1, at, web1, web2) // and endpoints of its own
	}
	c.program(s, wayOut, Rule{ID: "guests", Priority: 10, Src: wayOut.Prefix, DstGroup: web1.Group})
	if got := client.deniedRequest(shared[0], "udp", 53, "hello"); strings.Contains(got, "hello") {
		t.Errorf("a rule of the providers' group against the private addresses is there, and %q comes back", got)
	}
	if got := c.pod(db1).requests(shared[0], "udp", 53, "hello"); !strings.Contains(got, "web") {
		t.Errorf("an endpoint of the tenant itself hears %q", got)
	}
}

// If connections are tracked, as all in Kubernetes are, such a packet passes three zones of the connection tracker
// on its way to a provider of its own node. The userspace datapath drops a packet that is recirculated more than
// six times. A slowed client's is looked up anew before all that, and then has the hash by which it gets a provider.
func TestAServiceAnswersTrackedEndpointsOfOtherTenants(t *testing.T) {
	endpoints := []Endpoint{web1, knownOutside(red1)}
	for i := range endpoints {
		endpoints[i].Tiers = Tracked
	}
	c := startCluster(t, endpoints...)
	s := serving(FromPods|FromTenants, addressesOf(web1), shared...)
	client := c.pod(red1)
	c.withOutside(web1, s)
	c.pod(web1).serveShop()
	for _, slowed := range []bool{false, true} {
		client.Slowed = slowed
		for _, epoch := range []Epoch{{}, {Number: 1}} {
			objects := []Object{s, wayOut}
			if epoch.Number != 0 {
				objects = append(objects, epoch)
			}
			c.program(objects...)
			for i, at := range shared {
				own := OutsideAddress(wayOut.Prefixes()[i], client.port)
				for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
					if got := client.requests(at, kind, port, "hello"); !strings.Contains(got, own.String()) {
						t.Errorf("slowed %v, epoch %d: %s asks %s by %s: %q", slowed, epoch.Number, client.ID, at, kind, got)
					}
				}
			}
		}
	}
}

// A provider that is no endpoint sees the address of the host's port, whichever tenant the client has.
func TestAServiceBeyondTheHostAnswersEndpointsOfOtherTenants(t *testing.T) {
	c := startCluster(t, web1, red1)
	s := Service{ID: "api:blue", VRF: blueVRF, Tag: webBlue.Tag}
	for i, at := range shared {
		s.Ports = append(s.Ports, ServicePort{Address: at, From: FromPods | FromTenants, Protocol: openflow.ProtoTCP, Port: 80,
			Serving: []netip.AddrPort{netip.AddrPortFrom(beyond[i], 8080)}})
	}
	host := c.withOutside(web1, s.Numbered(noneTaken))
	host.serveShop()
	for i, at := range shared {
		p := wayOut.Prefixes()[i]
		for client, as := range map[*pod]netip.Addr{
			c.pod(red1): OutsideAddress(p, beyondNode), c.pod(web1): OutsideAddress(p, c.pod(web1).port),
		} {
			if got := client.requests(at, "tcp", 80, "hello"); !strings.HasPrefix(got, "host "+as.String()+" ") {
				t.Errorf("%s asks %s: %q, want it asked by %s", client.ID, at, got, as)
			}
		}
	}
}
