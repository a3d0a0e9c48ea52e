package k8s

import (
	"fmt"
	"net/netip"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The services of a namespace together have room for two of the largest; what is in the store when a leader begins keeps its room.
func TestServicesOfANamespaceShareItsRoomForBackends(t *testing.T) {
	b := &balancer{shares: shares{}}
	room := func(service string, want int) {
		t.Helper()
		if got := b.roomFor(service); got != want {
			t.Errorf("%s has room for %d, want %d", service, got, want)
		}
	}
	for range 5 {
		b.noteBackend("shop", "shop/before")
	}
	room("shop/before", maxBackends)
	b.takeShare("shop/a", maxBackends)
	room("shop/a", maxBackends)
	room("shop/b", maxBackends-5)
	b.takeShare("shop/b", maxBackends-5)
	room("shop/c", 0)
	room("shop/before", 5)
	room("elsewhere/c", maxBackends)
	b.takeShare("shop/before", 0)
	room("shop/c", 5)
	b.takeShare("shop/a", 0)
	b.takeShare("shop/b", 0)
	b.takeShare("shop/c", 0)
	if len(b.shares) != 0 {
		t.Errorf("what is gone is kept: %v", b.shares)
	}
}

func TestAServiceWithoutRoomHasNoBackends(t *testing.T) {
	var slice discoveryv1.EndpointSlice
	name, number := "", int32(80)
	slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &number}}
	for i := range 3 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 1)}).String()}})
	}
	service := mastercfg.K8sService{Ports: []mastercfg.K8sServicePort{{Port: 80}}}
	for most, want := range map[int]string{0: "0 and 3", 2: "2 and 1", 3: "3 and 0"} {
		all, left := backends(service, []any{&slice}, most)
		if got := fmt.Sprint(len(all), " and ", left); got != want {
			t.Errorf("room for %d: %s, want %s", most, got, want)
		}
	}
}
