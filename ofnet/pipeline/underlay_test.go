package pipeline

import (
	"net/netip"
	"testing"
)

// The tunnel may use IPv6, whatever it carries.
func TestTheUnderlayMayBeIPv6(t *testing.T) {
	one, two, far := web1, web2, db2
	one.VTEP = addr("fd99::1")
	two.VTEP, far.VTEP = addr("fd99::2"), addr("fd99::2")
	c := startCluster(t, one, two, far)
	for _, to := range []Endpoint{two, far} {
		for _, a := range []netip.Addr{to.IPv4, to.IPv6} {
			if eventually(func() string {
				out, err := c.pod(one).exec("ping", "-n", "-c", "1", "-s", "1300", "-W", "1", a.String())
				if err != nil {
					return ""
				}
				return out
			}) == "" {
				t.Errorf("%s does not reach %s", one.ID, a)
			}
		}
	}
}
