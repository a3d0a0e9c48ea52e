package master_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// bitmap is a map of 256 addresses, those of a /24.
func bitmap(offsets ...uint) string {
	b := mastercfg.NewBitmap(256)
	for _, n := range offsets {
		b.Set(n)
	}
	text, _ := b.MarshalText()
	return string(text)
}

// former makes the store of populated what an older netmaster left: addresses
// .20 of the network, .53 of the range of the group and ::7 are held.
func former(w *world) {
	const net, group = mastercfg.NetworkPrefix + "web.default", mastercfg.EndpointGroupPrefix + "front:default"
	// The ends, the endpoints, the service, the held one, the range, the gateway.
	taken := []uint{0, 1, 2, 9, 20, 254, 255}
	within := []uint{50, 53}
	for n := range uint(256) {
		if n >= 50 && n <= 59 {
			taken = append(taken, n)
		} else {
			within = append(within, n)
		}
	}
	w.edit(net, "ipAllocMap", bitmap(taken...))
	w.edit(net, "epCount", 3)
	w.edit(net, "epAddrCount", 10)
	w.edit(net, "ipv6AllocMap", map[string]bool{"::7": true})
	w.edit(net, "ipv6LastHost", "::7")
	w.edit(group, "epgIpAllocMap", bitmap(within...))
	w.edit(group, "epCount", 1)
	w.damage(mastercfg.OperRoot+"auto-vlan/global", `{"id":"global","freeVLANs":""}`)
	w.damage(mastercfg.OperRoot+"auto-vxlan/global", `{"id":"global"}`)
	w.damage(mastercfg.OperRoot+"auto-epg/global", `{"id":"global"}`)
	w.damage(mastercfg.ProviderKey("lb:default", "10.7.0.2"), "")
	w.damage(mastercfg.ProviderPrefix+"lb:default", `{"id":"lb:default","ServiceName":"lb:default","Providers":["10.7.0.2"]}`)
	w.damage(mastercfg.IPv6CounterPrefix+"web.default", "")
}

func TestRecordsOfAnOlderNetmasterAreConverted(t *testing.T) {
	w := populated(t)
	wanted := storetest.Dump(t, w.db)
	for _, address := range []string{"10.7.0.20", "10.7.0.53", "2001:db8::7"} {
		wanted[mastercfg.HeldKey("web.default", address)] = `{"id":"` + address + `","netID":"web.default"}`
	}
	wanted[mastercfg.IPv6CounterPrefix+"web.default"] = `{"id":"web.default","lastHost":"::7"}`
	former(w)
	rc := master.NewReconciler(w.ledger, w.entry)
	if err := rc.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.reconcile(rc)
	if diff := cmp.Diff(wanted, storetest.Dump(t, w.db)); diff != "" {
		t.Error(diff)
	}
}

func TestNothingAnOlderNetmasterHandedOutIsGivenAgain(t *testing.T) {
	w := populated(t)
	given := []string{"10.7.0.20", "10.7.0.53", "2001:db8::7"}
	former(w)
	if err := master.NewReconciler(w.ledger, w.entry).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"web.default", "web:front.default", "web.default|2001:db8::/64"} {
		for range 30 {
			w.update(func(tx *ledger.Tx) error {
				req := &mastercfg.AllocAddressRequest{NetworkID: pool}
				if pool == "web.default|2001:db8::/64" {
					req.AddressPool = "2001:db8::/64"
				}
				address, err := master.AllocAddress(tx, req, false)
				if err != nil {
					return nil // all are allocated
				}
				address = address[:len(address)-len("/24")]
				if slices.Contains(given, address) {
					t.Errorf("%s is given twice", address)
				}
				given = append(given, address)
				return nil
			})
		}
	}
}

// counted counts what enters the committer.
type counted struct {
	*ledger.Ledger
	updates int
}

func (c *counted) Update(ctx context.Context, plan func(*ledger.Tx) error) (int64, error) {
	c.updates++
	return c.Ledger.Update(ctx, plan)
}

func TestASoundStateMakesNobodyWait(t *testing.T) {
	w := populated(t)
	l := &counted{Ledger: w.ledger}
	rc := master.NewReconciler(l, w.entry)
	w.reconcile(rc)
	if l.updates != 0 {
		t.Errorf("%d plans were run beside those of requests", l.updates)
	}
	w.damage(mastercfg.BgpPrefix+"h1", "")
	if w.reconcile(rc); l.updates != 1 {
		t.Errorf("%d plans were run for one repair", l.updates)
	}
}
