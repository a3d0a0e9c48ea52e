package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/inet"
)

// atMachine returns a service at the addresses of the machine beyond the host's port.
func atMachine(providers ...Endpoint) Service {
	s := serving(FromPods, addressesOf(providers...), beyond...)
	for i := range s.Ports {
		s.Ports[i].Machine = true
	}
	return s.Numbered(noneTaken)
}

// atAddress answers datagrams from one of the addresses of the machine, at port 5454.
const atAddress = `
import socket, sys
udp = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 5454))
print("ready", flush=True)
while True:
    d, a = udp.recvfrom(65536)
    udp.sendto(("host " + a[0] + "\n").encode(), a)
`

// fromPort sends a request from a port.
const fromPort = `
import socket, sys
own, source, to, port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.settimeout(10)
s.bind((own, source))
s.connect((to, port))
s.send(b"hello")
print(s.recv(100).split()[0].decode())
`

// A service at the address of a machine gets only its own ports there; everything else goes to the machine: other
// ports, pings, datagrams in fragments, and answers to requests that a process of the machine sends from a port
// with the service's number.
func TestAtTheAddressOfAMachineAServiceHasItsPortsOnly(t *testing.T) {
	db := knownOutside(db1)
	c := startCluster(t, knownOutside(web1), db, web2)
	host := c.withOutside(web1, atMachine(web1, web2))
	for _, p := range []*pod{c.pod(web1), c.pod(web2), host} {
		p.serveShop()
	}
	for _, at := range beyond {
		host.run(atAddress, at.String())
	}
	listening, client := host.datagrams(53), c.pod(db).datagrams(4000)
	long := strings.Repeat("y", 4000)
	for _, affinity := range []uint16{0, 600} {
		s := atMachine(web1, web2)
		s.Affinity = affinity
		c.program(s, wayOut)
		for i, at := range beyond {
			if affinity == 0 {
				c.served(db, at, web1, web2)
				c.served(web1, at, web1, web2)
			} else {
				c.pod(db).keepsProvider(t, 10, at, "tcp", 80)
				c.pod(db).keepsProvider(t, 10, at, "udp", 53)
			}
			own := c.outsideAddress(db, at)
			for kind, port := range map[string]int{"tcp": 8080, "udp": 5454} {
				if got, want := c.pod(db).requests(at, kind, port, "hello"), fmt.Sprint("host ", own, " ", at); !strings.HasPrefix(got, want) {
					t.Errorf("the machine's own port %s at %s: %q, want %q", kind, at, got, want)
				}
			}
			if got := c.pod(db).requests(at, "udp", 5454, long); !strings.HasPrefix(got, "host ") {
				t.Errorf("fragments for the machine's own port at %s: %q", at, got)
			}
			if _, err := client.WriteToUDPAddrPort([]byte(long), netip.AddrPortFrom(at, 53)); err != nil {
				t.Fatal(err)
			}
			if got := next(listening, soon); string(got) != long {
				t.Errorf("fragments for a port of the service at %s: the machine gets %d bytes", at, len(got))
			}
			if got := c.pod(db).requests(at, "udp", 53, "long"); !strings.Contains(got, " 40") {
				t.Errorf("a long answer of the service at %s: %q", at, got)
			}
			if got := c.pod(db).pinged(at); got != 64 {
				t.Errorf("%s is pinged: TTL %d", at, got)
			}
			pod := OutsideAddress(wayOut.Prefixes()[i], c.pod(web1).port)
			if out, err := host.exec(testkit.Python, "-ISc", fromPort, at.String(), "80", pod.String(), "8080"); err != nil || strings.TrimSpace(out) != web1.ID {
				t.Errorf("a process of the machine asks a pod from %s, port 80: %q, %v", at, out, err)
			}
		}
	}
	// A provider may be a process of the machine, at the very address and port.
	s := atMachine()
	s.Ports = nil
	for _, at := range beyond {
		s.Ports = append(s.Ports, ServicePort{Address: at, From: FromPods, Machine: true, Protocol: openflow.ProtoTCP, Port: 8080, Serving: []netip.AddrPort{netip.AddrPortFrom(at, 8080)}})
	}
	c.program(s.Numbered(noneTaken), wayOut)
	for _, at := range beyond {
		if got := c.pod(db).requests(at, "tcp", 8080, "hello"); !strings.HasPrefix(got, "host ") {
			t.Errorf("the machine's own process serves at %s: %q", at, got)
		}
	}
	// The machine gets the ports again as soon as the service is removed.
	c.program(wayOut)
	for _, at := range beyond {
		if got := c.pod(db).requests(at, "tcp", 80, "hello"); !strings.Contains(got, "refused") {
			t.Errorf("no service is there, and a pod asks %s: %q", at, got)
		}
		if _, err := client.WriteToUDPAddrPort([]byte("mine"), netip.AddrPortFrom(at, 53)); err != nil {
			t.Fatal(err)
		}
		if got := next(listening, soon); string(got) != "mine" {
			t.Errorf("no service is there, and the machine gets %q at %s", got, at)
		}
	}
}

// The machine's address does not extend the clients of a service: packets of clients that it does not serve are
// dropped, also fragments, and a service without providers refuses.
func TestAtTheAddressOfAMachineAServiceServesWhomItServesElsewhere(t *testing.T) {
	db, other := knownOutside(db1), knownOutside(endpoint("db3", dbBlue, 3, front))
	c := startCluster(t, web1, db, other)
	s := atMachine(web1)
	for i, p := range s.Ports {
		s.Ports[i].Sources = []netip.Prefix{inet.Host(map[bool]netip.Addr{true: db.IPv4, false: db.IPv6}[p.Address.Is4()])}
	}
	host := c.withOutside(web1, s)
	c.pod(web1).serveShop()
	listening := host.datagrams(53)
	for _, at := range beyond {
		for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
			if got := c.pod(db).requests(at, kind, port, "hello"); !strings.HasPrefix(got, web1.ID) {
				t.Errorf("who is in a range asks %s by %s: %q", at, kind, got)
			}
			for _, text := range []string{"hello", strings.Repeat("y", 4000)} {
				if got := c.pod(other).deniedRequest(at, kind, port, text); !strings.Contains(got, "timed out") {
					t.Errorf("who is in no range asks %s by %s: %q", at, kind, got)
				}
			}
		}
	}
	if _, err := host.datagrams(4000).WriteToUDPAddrPort([]byte("fence"), netip.AddrPortFrom(beyond[0], 53)); err != nil {
		t.Fatal(err)
	}
	if got := next(listening, soon); string(got) != "fence" {
		t.Errorf("the machine gets %.10q", got)
	}
	c.program(atMachine(), wayOut)
	ask := packet{inPort: c.pod(db).port, src: db.MAC, dst: AnycastMAC, from: db.IPv4, kind: "tcp,tp_dst=80,tcp_flags=syn"}
	for at, refused := range map[netip.Addr]bool{beyond[0]: true, addr("198.51.100.2"): false} {
		ask.to = at
		if trace := c.pod(db).node.Appctl("ofproto/trace", bridge, ask.String()); strings.Contains(trace, fmt.Sprintf("\n%d. ", tableAnswer)) != refused {
			t.Errorf("nobody serves, and a pod that asks %s is refused: %v, want %v\n%s", at, !refused, refused, trace)
		}
	}
}
