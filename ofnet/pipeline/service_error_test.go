package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/inet"
)

// narrow is a provider that answers each packet with the error that it was larger than 1000 bytes, as a router on
// the path would.
const narrow = `
import socket, struct, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("0.0.0.0", 5353))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
def checksum(b):
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b)); s = (s >> 16) + (s & 0xffff); return ~(s + (s >> 16)) & 0xffff
me = socket.inet_aton(sys.argv[1])
print("ready", flush=True)
while True:
    d, a = udp.recvfrom(65536)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(d), 1, 0x4000, 63, 17, 0, socket.inet_aton(a[0]), me)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + struct.pack("!HHHH", a[1], 5353, 8 + len(d), 0)
    icmp = struct.pack("!BBHHH", 3, 4, 0, 0, 1000) + ip
    raw.sendto(icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:], (a[0], 0))
`

// mtu sends to a service until the kernel has learned a smaller MTU.
const mtu = `
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.IPPROTO_IP, 10, 2); s.connect((sys.argv[1], 53))
for _ in range(600):
    try: s.send(b"x" * 1100)
    except OSError: pass
    if s.getsockopt(socket.IPPROTO_IP, 14) == 1000: break
    time.sleep(0.05)
print(s.getsockopt(socket.IPPROTO_IP, 14))
`

// An error about a translated packet quotes the packet as it was sent.
func TestErrorsAboutWhatAServiceWasSentReachTheClient(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	for _, provider := range []Endpoint{web1, web2} {
		c.program(shop(provider.IPv4))
		if got := c.pod(db1).requests(vip, "udp", 53, "hello"); !strings.Contains(got, "ConnectionRefused") {
			t.Errorf("nobody listens on %s: %s", provider.ID, got)
		}
		c.pod(provider).run(narrow, provider.IPv4.String())
		if out, err := c.pod(db1).exec(testkit.Python, "-ISc", mtu, vip.String()); err != nil || strings.TrimSpace(out) != "1000" {
			t.Errorf("MTU on the way to %s: %s, %v", provider.ID, out, err)
		}
	}
}

// knock sends a packet to a TCP and a UDP port and does not wait for an answer.
const knock = `
import socket, sys
t = socket.socket(); t.setblocking(False); t.connect_ex((sys.argv[1], int(sys.argv[2])))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], int(sys.argv[3])))
`

// Packets for a service without providers go to the agent, within the limits, and nowhere else.
func TestWhatNobodyServesIsRefused(t *testing.T) {
	c := startCluster(t, db1, web1)
	n := c.pod(db1).node
	refused := func() (count int) {
		for _, f := range strings.Split(n.Ofctl("dump-flows", bridge, fmt.Sprintf("table=%d", tableReply)), "\n") {
			var packets int
			if _, after, found := strings.Cut(f, "n_packets="); found && strings.Contains(f, "controller(") {
				_, _ = fmt.Sscanf(after, "%d", &packets)
				count += packets
			}
		}
		return count
	}
	drained := shop()
	drained.Draining = append(drained.Draining, web1.IPv4)
	for _, test := range []struct {
		service  Service
		tcp, udp string // ports
	}{{shop(), "80", "53"}, {shop(web1.IPv4), "81", "54"}, {drained, "80", "53"}} {
		c.program(test.service)
		if out, err := c.pod(db1).exec(testkit.Python, "-ISc", knock, vip.String(), test.tcp, test.udp); err != nil {
			t.Fatal(out, err)
		}
		if got := eventually(func() string {
			if refused() >= 2 {
				return "refused"
			}
			return ""
		}); got == "" {
			t.Errorf("service %+v: %d packets to be refused, want 2", test.service, refused())
		}
		if c.pod(db1).pinged(vip) != freshTTL {
			t.Error("no ping of the service")
		}
	}
	if _, err := node1().For(Service{ID: "s", VRF: 1, Tag: 1, Ports: []ServicePort{{Address: vip, From: FromPods, Protocol: openflow.ProtoTCP, Port: 1, Target: 1, Group: groupAnswer}}}, 0); err == nil {
		t.Error("a service has the group of somebody else")
	}
}

// Rules match client and provider, never the service's address.
func TestRulesJudgeServicesByTheirProviders(t *testing.T) {
	c := startCluster(t, db1, web2)
	s := shop(web2.IPv4)
	tcp := func(change func(*Rule)) Rule {
		return rule("r", 10, func(r *Rule) { r.Protocol = openflow.ProtoTCP; change(r) })
	}
	c.pod(web2).serveShop()
	for _, test := range []struct {
		name   string
		rule   Rule
		denied bool
	}{
		{"the service's address", tcp(func(r *Rule) { r.Dst = inet.Host(vip) }), false},
		{"its port", tcp(func(r *Rule) { r.DstPort = 80 }), false},
		{"client's and provider's group, the provider's port", tcp(func(r *Rule) { r.SrcGroup, r.DstGroup, r.DstPort = store, front, 8080 }), true},
		{"the answers", tcp(func(r *Rule) { r.SrcGroup, r.DstGroup = front, store }), true},
	} {
		c.program(s, test.rule)
		asks := c.pod(db1).requests
		if test.denied {
			asks = c.pod(db1).deniedRequest
		}
		if got := asks(vip, "tcp", 80, "hello"); strings.HasPrefix(got, "error") != test.denied {
			t.Errorf("a rule denies %s: %s", test.name, got)
		}
		if got := c.pod(db1).requests(vip, "udp", 53, "hello"); strings.HasPrefix(got, "error") {
			t.Errorf("a rule denies %s by TCP; by UDP: %s", test.name, got)
		}
	}
}
