package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// samePort asks through a service from a port, ends that, by RST or without, and asks the provider itself from the same port, which connects by the first
// SYN. It takes another port when that fails: the provider may not have heard of the end yet. Numbers of sequence follow the provider's clock, and what it
// begins 4 ms later looks as if it belonged to what was before, so that a connection stands for longer than that. Then it asks through the service from another port, asks the provider from that, which may fail, and goes
// on through the service.
const samePort = `
import socket, struct, sys, time
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
for reset in False, True:
    for source in range(first, first + 10):
        first = source + 1
        s = connect(service, 80, source, 5)
        ask(s)
        time.sleep(0.02)
        if reset:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            s.shutdown(socket.SHUT_WR)
            while s.recv(100): pass
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

// A client may have the port of a connection through a service once more, for one to the provider itself, when the first has ended.
func TestAProviderIsAskedDirectlyFromAPortThatHasAskedTheService(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	for i, provider := range []Endpoint{web1, web2} { // on the client's node, and on another
		c.program(serving(FromPods, addressesOf(provider), vip, vip6))
		c.pod(provider).serveShop()
		for _, way := range [][3]netip.Addr{{db1.IPv4, vip, provider.IPv4}, {db1.IPv6, vip6, provider.IPv6}} {
			out, err := c.pod(db1).exec(testkit.Python, "-ISc", samePort, way[0].String(), way[1].String(), way[2].String(), fmt.Sprint(30000+100*i))
			if want := strings.Repeat(provider.ID+" once ", 2) + provider.ID; err != nil || strings.TrimSpace(out) != want {
				t.Errorf("%s: %q, %v; want %q", way[2], out, err, want)
			}
		}
	}
}
