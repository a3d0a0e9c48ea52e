package k8splugin

import (
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

func TestTheResultNamesTheNodesNameServerUnlessSomebodyNamesAnother(t *testing.T) {
	served := Attachment{NameServers: []netip.Addr{netip.MustParseAddr("10.1.1.254"), netip.MustParseAddr("fd00:1::1")}, Domain: "blue.contiv.internal"}
	own := types.DNS{Nameservers: []string{"10.1.1.254", "fd00:1::1"}, Search: []string{"blue.contiv.internal"}}
	configured := types.DNS{Nameservers: []string{"192.0.2.1"}, Options: []string{"ndots:5"}}
	for name, c := range map[string]struct {
		asked types.DNS
		at    Attachment
		want  types.DNS
	}{
		"nothing asked":          {types.DNS{}, served, own},
		"a server of their own":  {configured, served, configured},
		"a domain of their own":  {types.DNS{Search: []string{"example.org"}}, served, types.DNS{Nameservers: own.Nameservers, Search: []string{"example.org"}}},
		"options only":           {types.DNS{Options: []string{"ndots:5"}}, served, types.DNS{Nameservers: own.Nameservers, Search: own.Search, Options: []string{"ndots:5"}}},
		"nobody answers":         {types.DNS{}, Attachment{}, types.DNS{}},
		"nobody, but configured": {configured, Attachment{}, configured},
	} {
		if diff := cmp.Diff(c.want, resolver(c.asked, c.at)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
