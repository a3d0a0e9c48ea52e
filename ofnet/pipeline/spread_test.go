package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// beginner begins a TCP connection from each of 500 ports; nobody has to answer.
const beginner = `
import socket, sys
for port in range(int(sys.argv[2]), int(sys.argv[2]) + 500):
    s = socket.socket(); s.setblocking(False); s.bind(("", port))
    s.connect_ex((sys.argv[1], 80)); s.close()
`

// Of nine providers with 16 values of the hash, seven would get twice as much as the others.
func TestConnectionsAreSpreadEvenlyOverProviders(t *testing.T) {
	const enough = 3000
	c := startCluster(t, db1)
	var providers []netip.Addr
	for i := range byte(9) {
		providers = append(providers, netip.AddrFrom4([4]byte{10, 1, 9, 1 + i}))
	}
	c.program(shop(providers...))
	made := map[netip.Addr]int{}
	for port, total := 20000, 0; total < enough; port += 500 {
		if port == 60000 {
			t.Fatalf("only %d connections were made", total)
		}
		if out, err := c.pod(db1).exec("python3", "-c", beginner, vip.String(), fmt.Sprint(port)); err != nil {
			t.Fatal(err, out)
		}
		tracked := c.pod(db1).node.Appctl("dpctl/dump-conntrack")
		total = 0
		for _, p := range providers {
			made[p] = strings.Count(tracked, "reply=(src="+p.String()+",")
			total += made[p]
		}
	}
	even := enough / len(providers)
	for _, p := range providers {
		if made[p] < even*3/4 || made[p] > even*3/2 {
			t.Errorf("%s has %d connections, an even share is %d", p, made[p], even)
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
