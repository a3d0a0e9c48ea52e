package hostaccess

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
)

func TestWhereTheStoreListensIsClosed(t *testing.T) {
	urls := []string{"http://192.0.2.11:3379", "https://192.0.2.12:3380", "http://[2001:db8::13]:3380", "http://127.0.0.1:4379", "unix:///run/etcd", "http://no-such-name.invalid:5379"}
	var err error
	m := New(Config{Barred: Barred{StoreURLs: func(context.Context) ([]string, error) { return urls, err }}})
	const want = "[179 3379 3380 4379 5379 9998] [192.0.2.7 192.0.2.11 192.0.2.12 2001:db8::13]"
	for _, why := range []string{"asked", "asked again", "the store is away"} {
		m.readStores(t.Context())
		c := Closed{Ports: []uint16{179}}.with(agent.HostAccess{MasterPorts: []uint16{9998}, Nodes: addresses("192.0.2.7")}, m.stores)
		if got := fmt.Sprint(c.Ports, c.Nodes); got != want {
			t.Errorf("%s: closed are %s, want %s", why, got, want)
		}
		m.stores.asked = time.Time{}
		if why == "asked again" {
			urls, err = nil, errors.New("away")
		}
	}
}

// Ports that only the store names are held like those of the command line.
func TestPortsThatTheStoreTellsAreHeld(t *testing.T) {
	m := New(Config{Barred: Barred{Closed: Closed{VXLANPort: 4789, Ports: []uint16{9999}, Own: []uint16{10256}}}})
	held := func() (ports []uint16) {
		for _, port := range []uint16{8080, 8443, 9999, 10256, 30999} {
			if m.Holds(mastercfg.HostPort{Protocol: "tcp", Port: port}) {
				ports = append(ports, port)
			}
		}
		return ports
	}
	for _, step := range []struct {
		access agent.HostAccess
		want   []uint16
	}{
		{agent.HostAccess{MasterPorts: []uint16{8443}, HealthPorts: []uint16{30999}}, []uint16{8443, 9999, 10256, 30999}},
		{agent.HostAccess{MasterPorts: []uint16{8443}}, []uint16{8443, 9999, 10256}},
	} {
		m.readClosed(step.access)
		if got := held(); !slices.Equal(got, step.want) {
			t.Errorf("held are %v, want %v", got, step.want)
		}
	}
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}
