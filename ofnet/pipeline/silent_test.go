package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// attempts sends many TCP requests at once, and prints the result of each.
const attempts = `
import socket, sys
from concurrent.futures import ThreadPoolExecutor
def ask(_):
    s = socket.socket(); s.settimeout(int(sys.argv[3]))
    try:
        s.connect((sys.argv[1], 80)); s.send(b"hello")
        return s.recv(100).decode().split()[0]
    except ConnectionRefusedError: return "refused"
    except socket.timeout: return "silence"
    finally: s.close()
with ThreadPoolExecutor(int(sys.argv[2])) as all: print("\n".join(all.map(ask, range(int(sys.argv[2])))))
`

// Providers are not health-checked: one that does not answer affects the clients that are sent to it, and no
// others.
func TestAProviderThatDoesNotAnswerCostsItsOwnShare(t *testing.T) {
	const clients = 32 // the probability that one of two providers gets none of them is 1 in 4 billion
	c := startCluster(t, db1, db2, web1, web2)
	c.pod(web2).serveShop()
	gone := addr("10.1.1.77")
	for _, test := range []struct {
		client    Endpoint // another one: it may reuse a port, and with it the provider
		providers []netip.Addr
		told      []string
		patience  string // in seconds, of a client that waits for an answer
	}{
		{db1, []netip.Addr{web1.IPv4, web2.IPv4}, []string{"refused", web2.ID}, "30"}, // nothing listens
		{db2, []netip.Addr{gone, web2.IPv4}, []string{"silence", web2.ID}, "10"},      // no host has the address
	} {
		c.program(shop(test.providers...))
		out, err := c.pod(test.client).exec(testkit.Python, "-ISc", attempts, vip.String(), fmt.Sprint(clients), test.patience)
		if err != nil {
			t.Fatal(out, err)
		}
		counted := map[string]int{}
		for _, answer := range strings.Fields(out) {
			counted[answer]++
		}
		sum := 0
		for _, want := range test.told {
			if counted[want] == 0 {
				t.Errorf("providers %v: nobody is told %q: %v", test.providers, want, counted)
			}
			sum += counted[want]
		}
		if sum != clients {
			t.Errorf("providers %v: %d clients are told %v, want %v", test.providers, clients, counted, test.told)
		}
		if c.pod(test.client).pinged(web2.IPv4) == 0 {
			t.Errorf("providers %v: the client does not reach %s", test.providers, web2.ID)
		}
	}
}
