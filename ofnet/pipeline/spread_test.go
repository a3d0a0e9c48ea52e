package pipeline

import (
	"fmt"
	"net/netip"
	"regexp"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// beginner opens a TCP connection from each of 500 ports, without waiting for answers.
const beginner = `
import socket, sys
for port in range(int(sys.argv[2]), int(sys.argv[2]) + 500):
    s = socket.socket(); s.setblocking(False); s.bind(("", port))
    s.connect_ex((sys.argv[1], 80)); s.close()
`

// replies matches a connection's provider and the client's port.
var replies = regexp.MustCompile(`reply=\(src=(10\.1\.9\.\d+),dst=[^,]*,sport=8080,dport=(\d+)\)`)

// With nine providers and 16 values of the hash, seven would get twice as many connections as the others.
func TestConnectionsAreSpreadEvenlyOverProviders(t *testing.T) {
	const enough = 3000
	c := startCluster(t, db1)
	var providers []netip.Addr
	for i := range byte(9) {
		providers = append(providers, netip.AddrFrom4([4]byte{10, 1, 9, 1 + i}))
	}
	c.program(shop(providers...))
	chosen, made := map[string]string{}, map[string]int{} // the providers of ports, and the connections of providers
	for port := 20000; len(chosen) < enough; port += 500 {
		if port == 60000 {
			t.Fatalf("only %d connections were made", len(chosen))
		}
		if out, err := c.pod(db1).exec(testkit.Python, "-ISc", beginner, vip.String(), fmt.Sprint(port)); err != nil {
			t.Fatal(err, out)
		}
		// A connection begun half a minute ago may not be tracked any more.
		for _, found := range replies.FindAllStringSubmatch(c.pod(db1).node.Appctl("dpctl/dump-conntrack"), -1) {
			chosen[found[2]] = found[1]
		}
	}
	for _, p := range chosen {
		made[p]++
	}
	even := enough / len(providers)
	for _, p := range providers {
		if made[p.String()] < even*3/4 || made[p.String()] > even*3/2 {
			t.Errorf("%s has %d connections, an even share is %d", p, made[p.String()], even)
		}
	}
}

func TestAGroupHasASmallestShareOnlyWhereItHelps(t *testing.T) {
	for count, weights := range map[int]string{
		0: "[]", 1: "[1]", 2: "[1 1]", 3: "[1 20 21 21]", 4: "[1 1 1 1]", 5: "[1 11 12 12 12 12]",
	} {
		if got := fmt.Sprint(weightsOf(count)); got != weights {
			t.Errorf("%d choices have the weights %s, want %s", count, got, weights)
		}
	}
	for count := 1; count <= 100; count++ {
		total, smallest := uint16(0), uint16(hashValues)
		for _, w := range weightsOf(count) {
			total, smallest = total+w, min(smallest, w)
		}
		if smallest == 0 || count <= hashValues && total/smallest > hashValues {
			t.Errorf("%d choices need more than %d values of the hash: %v", count, hashValues, weightsOf(count))
		}
	}
}

func weightsOf(choices int) (weights []uint16) {
	for _, b := range evenly(make([][]openflow.Action, choices)) {
		weights = append(weights, b.Weight)
	}
	return weights
}
