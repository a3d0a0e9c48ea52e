package master_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// BenchmarkAnEndpoint is what the plan of one endpoint, or of that of a pod, takes in networks of any
// size, with few and many endpoints, without the commit.
func BenchmarkAnEndpoint(b *testing.B) {
	w := newWorld(b)
	networks := []struct {
		name, prefix string
		taken        int
	}{{"few-in-29", "10.0.0.0/29", 2}, {"few-in-16", "11.0.0.0/16", 2}, {"many-in-16", "12.0.0.0/16", 60000},
		{"few-in-8", "13.0.0.0/8", 2}, {"many-in-8", "14.0.0.0/8", 60000}}
	for _, n := range networks {
		w.post("networks/default:"+n.name, `{"tenantName":"default","networkName":"`+n.name+`","encap":"vxlan","subnet":"`+n.prefix+`"}`)
		w.fill(n.name, netip.MustParsePrefix(n.prefix), n.taken)
	}
	cooldown := master.NewCooldown(time.Now)
	for _, n := range networks {
		for who, uid := range map[string]string{"": "", "/pod": "u1"} {
			b.Run(n.name+who, func(b *testing.B) {
				b.ReportAllocs()
				req := &mastercfg.CreateEndpointRequest{TenantName: "default", NetworkName: n.name, PodUID: uid,
					ConfigEP: mastercfg.ConfigEP{Container: "new", Host: "h1"}}
				for b.Loop() {
					var ep mastercfg.CfgEndpointState
					err := w.ledger.Preview(b.Context(), func(tx *ledger.Tx) (err error) {
						ep, err = cooldown.CreateEndpoint(tx, req)
						return err
					})
					if err != nil {
						b.Fatal(err)
					}
					cooldown.Given(&ep)
				}
			})
		}
	}
}

// fill assigns the first addresses of a network to endpoints.
func (w *world) fill(network string, prefix netip.Prefix, count int) {
	w.Helper()
	id := mastercfg.NetworkID("default", network)
	addr := prefix.Addr()
	for from := 0; from < count; from += 10000 {
		w.update(func(tx *ledger.Tx) error {
			for n := from; n < min(from+10000, count); n++ {
				addr = addr.Next()
				ep := mastercfg.CfgEndpointState{ID: fmt.Sprintf("%s-%d", id, n), NetID: id, IPAddress: addr.String(), HomingHost: "h1"}
				if err := ledger.Write(tx, mastercfg.EndpointPrefix+ep.ID, ep); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
