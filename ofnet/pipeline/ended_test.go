package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// samePort connects to a service from a port, ends that connection in one of several ways, and connects to the
// provider itself from the same port, which succeeds by the first SYN. If that fails it uses another port: the
// provider may not have received the end yet. Then it connects to the service from another port, to the provider
// from that, which may fail, and continues through the service.
const samePort = `
import socket, struct, sys
own, service, provider, first = sys.argv[1:4] + [int(sys.argv[4])]
def connect(to, port, source, seconds):
    s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(seconds)
    s.bind((own, source))
    s.connect((to, port))
    return s
def ask(s):
    s.sendall(b"hello")
    return s.recv(100).split()[0].decode()
def by_both(s):
    s.shutdown(socket.SHUT_WR)
    while s.recv(100): pass
def by_reset(s): s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
def by_provider(s):
    s.sendall(b"reset")
    try:
        while s.recv(100): pass
    except ConnectionResetError: pass
for end in by_both, by_reset, by_provider:
    for source in range(first, first + 10):
        first = source + 1
        s = connect(service, 80, source, 5)
        ask(s)
        end(s)
        s.close()
        s = connect(provider, 8080, source, 5)
        sent_again = struct.unpack_from("I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]
        if not sent_again: break
    print(ask(s), "again" if sent_again else "once", end=" ")
s = connect(service, 80, first, 5)
ask(s)
try: connect(provider, 8080, first, 1)
except OSError: pass
print(ask(s))
`

// opening connects to a service from a port, and then does nothing more, resets the connection, or waits for an
// answer. Only a reset is sent at the end.
const opening = `
import socket, struct, sys
own, service, source, then = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
s = socket.socket(socket.AF_INET6 if ":" in service else socket.AF_INET)
s.settimeout(10)
s.bind((own, source))
s.connect((service, 80))
if then == "answered":
    s.sendall(b"hello")
    s.recv(100)
if then == "reset":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
else:
    TCP_REPAIR = 19
    s.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1) # nothing is sent when it is closed
s.close()
`

// As long as the provider may have to repeat its SYN-ACK, that belongs to the connection.
func TestAConnectionIsKnownToBeOpen(t *testing.T) {
	c := startCluster(t, db1, web1)
	c.program(serving(FromPods, addressesOf(web1), vip, vip6))
	c.pod(web1).serveShop()
	const port = uint32(openflow.ProtoTCP)<<16 | 80
	mark := func(source int) string {
		for line := range strings.Lines(c.pod(db1).node.Appctl("dpctl/dump-conntrack")) {
			if _, after, found := strings.Cut(line, fmt.Sprintf("sport=%d,dport=80)", source)); found {
				_, after, _ = strings.Cut(after, "mark=")
				return after[:strings.IndexByte(after, ',')]
			}
		}
		return "none"
	}
	source := 31000
	for _, way := range [][2]netip.Addr{{db1.IPv4, vip}, {db1.IPv6, vip6}} {
		for then, want := range map[string]uint32{"nothing": port, "reset": port | markOpened, "answered": port | markOpened} {
			source++
			if out, err := c.pod(db1).exec(testkit.Python, "-ISc", opening, way[0].String(), way[1].String(), fmt.Sprint(source), then); err != nil {
				t.Fatal(err, out)
			}
			told := fmt.Sprintf("%s, %s: the mark is %d", way[1], then, want)
			testkit.Eventually(t, soon, told, func() bool { return mark(source) == fmt.Sprint(want) })
		}
	}
}

// After a connection through a service has ended, its client may use the same port for a connection to the
// provider itself.
func TestAProviderIsAskedDirectlyFromAPortThatHasAskedTheService(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	for i, provider := range []Endpoint{web1, web2} { // on the client's node, and on another
		c.program(serving(FromPods, addressesOf(provider), vip, vip6))
		c.pod(provider).serveShop()
		for _, way := range [][3]netip.Addr{{db1.IPv4, vip, provider.IPv4}, {db1.IPv6, vip6, provider.IPv6}} {
			out, err := c.pod(db1).exec(testkit.Python, "-ISc", samePort, way[0].String(), way[1].String(), way[2].String(), fmt.Sprint(30000+100*i))
			if want := strings.Repeat(provider.ID+" once ", 3) + provider.ID; err != nil || strings.TrimSpace(out) != want {
				t.Errorf("%s: %q, %v; want %q", way[2], out, err, want)
			}
		}
	}
}

// fewPorts connects, in eight threads for three seconds, to a service or its provider, at random, and closes from
// either end. Each thread has thirty ports, used in turn. The ports are not adjacent: if the port of a connection
// to the service is in use, the tracker assigns the next free one, which a connection to the provider itself must
// not use at the time.
const fewPorts = `
import errno, itertools, random, socket, struct, sys, threading, time
own, service, provider = sys.argv[1], (sys.argv[2], 80), (sys.argv[3], 8080)
end, failed, asked = time.monotonic() + 3, [], []
def ask(port):
    to, first = random.choice([service, provider]), random.choice(["client", "provider", "reset"])
    s = socket.socket(socket.AF_INET6 if ":" in own else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(10)
    try:
        s.bind((own, port))
        s.connect(to)
        s.sendall(b"x" if first == "provider" else b"wait")
        s.recv(10)
        if first == "client": s.shutdown(socket.SHUT_WR)
        if first == "reset": s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else: s.recv(10) # the provider has closed it
        asked.append(to)
    except OSError as e:
        # The client itself remembers that it has asked the same from that port.
        if e.errno not in (errno.EADDRNOTAVAIL, errno.EADDRINUSE): failed.append("from port %d to %s, ended by %s: %s" % (port, to, first, e))
    s.close()
def go_on(first):
    for port in itertools.cycle(range(first, first + 1500, 50)):
        if time.monotonic() > end: return
        ask(port)
threads = [threading.Thread(target=go_on, args=(30000 + 1500 * i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(len(failed), "failed of", len(failed) + len(asked), *failed[:5])
`

// closing answers and closes, or waits for the client to close first.
const closing = `
import socket, threading
s = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
print("ready", flush=True)
def serve(c):
    c.settimeout(10)
    try:
        waits = c.recv(10) == b"wait"
        c.sendall(b"x")
        if waits: c.recv(10)
    except OSError: pass
    c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
`

// A client with many requests, or few ports, soon reuses ports; those of its connections to a service are then
// used for a provider directly.
func TestAClientWithFewPortsAsksAServiceAndItsProvider(t *testing.T) {
	c := startCluster(t, db1, web2)
	c.program(serving(FromPods, addressesOf(web2), vip, vip6))
	c.pod(web2).run(closing)
	for _, way := range [][3]netip.Addr{{db1.IPv4, vip, web2.IPv4}, {db1.IPv6, vip6, web2.IPv6}} {
		out, err := c.pod(db1).exec(testkit.Python, "-ISc", fewPorts, way[0].String(), way[1].String(), way[2].String())
		t.Log(out)
		if err != nil || !strings.HasPrefix(out, "0 failed of ") || strings.HasPrefix(out, "0 failed of 0") {
			t.Errorf("%s and %s: %s, %v\n%s", way[1], way[2], out, err, c.pod(db1).node.Appctl("dpctl/dump-conntrack"))
		}
	}
}

// twice connects to a service and then to its provider from the same port, or the other way round, from many ports. The provider closes
// each connection first, so it remembers the first one, and its time stamps may be later than those of the second: it answers
// that SYN with an ACK of the first connection, the client answers with RST, and its next SYN, a second later, is accepted.
const twice = `
import socket, sys, threading
own, service, provider = sys.argv[1], (sys.argv[2], 80), (sys.argv[3], 8080)
def ask(to, port):
    s = socket.socket(socket.AF_INET6 if ":" in own else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(2.5)
    s.bind((own, port))
    s.connect(to)
    s.sendall(b"x")
    while s.recv(10): pass
    s.close()
failed, asked = [], []
def both(first, second, port):
    try:
        ask(first, port)
        asked.append(port)
        ask(second, port)
    except OSError as e: failed.append("%s from port %d: %s" % (second, port, e))
threads = []
for port in range(int(sys.argv[4]), int(sys.argv[4]) + 200, 10):
    for first, second, at in (service, provider, port), (provider, service, port + 5):
        threads.append(threading.Thread(target=both, args=(first, second, at)))
for t in threads: t.start()
for t in threads: t.join()
print(len(failed), "failed of", len(asked), *failed[:5])
`

// To the tracker, the packets by which a provider and its client agree on a new connection are invalid ones of the old connection. They
// pass policies all the same.
func TestAProviderThatRemembersAConnectionIsAskedAnewByWhoPoliciesLet(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	c.classify(map[string]Tiers{web1.ID: isolated, web2.ID: isolated, db1.ID: isolated})
	for i, provider := range []Endpoint{web1, web2} { // on the client's node, and on another
		rules := []Object{Epoch{Number: 5}, serving(FromPods, addressesOf(provider), vip, vip6)}
		for i, r := range []TierRule{allowing(false, classWeb1, withPeers(classDB1)), allowing(false, classWeb2, withPeers(classDB1)),
			allowing(true, classDB1, withPeers(classWeb1, classWeb2))} {
			r.Number, r.ID = uint32(i+1), fmt.Sprint(i)
			rules = append(rules, r)
		}
		for _, n := range c.nodes {
			n.replace(t, c.wants(n, rules...).chosen())
		}
		c.pod(provider).run(closing)
		for _, way := range [][3]netip.Addr{{db1.IPv4, vip, provider.IPv4}, {db1.IPv6, vip6, provider.IPv6}} {
			out, err := c.pod(db1).exec(testkit.Python, "-ISc", twice, way[0].String(), way[1].String(), way[2].String(), fmt.Sprint(30000+1000*i))
			if err != nil || !strings.HasPrefix(out, "0 failed of 40") {
				t.Errorf("%s: %s, %v", way[2], out, err)
			}
			for _, n := range c.nodes {
				n.nothingFollowsTheTracker(t)
			}
		}
	}
}
