package pipeline

import (
	"net/netip"
	"testing"
)

func TestTheGatewayAnswersPingsWhateverThePolicy(t *testing.T) {
	c := startCluster(t, web1, red1)
	c.program(rule("deny-everything", 100, func(*Rule) {}))

	for _, test := range []struct {
		name string
		from Endpoint
		to   netip.Addr
		want int
	}{
		{"its own gateway", web1, webBlue.Gateway, freshTTL},
		{"its own gateway, IPv6", web1, webBlue.Gateway6, freshTTL},
		{"the gateway of another network of the tenant", web1, dbBlue.Gateway, freshTTL},
		{"the gateway of another network of the tenant, IPv6", web1, dbBlue.Gateway6, freshTTL},
		{"a gateway with the same address in another tenant", red1, webRed.Gateway, freshTTL},
		{"the gateway of another tenant", red1, dbBlue.Gateway, 0},
		{"the gateway of another tenant, IPv6", red1, dbBlue.Gateway6, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // those that wait in vain do so together
			if got := c.pod(test.from).ping(test.to); got != test.want {
				t.Errorf("TTL of the answer is %d, want %d (0: no answer)", got, test.want)
			}
		})
	}
}
