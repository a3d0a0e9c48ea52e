package vlanlink

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/test/testkit"
)

// host is a network namespace with one end of a trunk.
type host struct {
	t    *testing.T
	name string
}

func newHost(t *testing.T, name string) host {
	h := host{t, fmt.Sprintf("vlanlink-%d-%s", os.Getpid(), name)}
	h.run("ip", "netns", "add", h.name)
	t.Cleanup(func() { h.run("ip", "netns", "delete", h.name) })
	return h
}

func (h host) run(args ...string) {
	h.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %v: %s", args, err, out)
	}
}

func (h host) inside(args ...string) []string {
	return append([]string{"ip", "netns", "exec", h.name}, args...)
}

// vlan gives the host an address in a VLAN.
func (h host) vlan(id uint16, address string) {
	h.t.Helper()
	ns, err := netns.GetFromName(h.name)
	if err != nil {
		h.t.Fatal(err)
	}
	defer ns.Close()
	name := fmt.Sprint("vlan", id)
	if err := Add(ns, "trunk", name, id); err != nil {
		h.t.Fatal(err)
	}
	h.run("ip", "-n", h.name, "address", "add", address, "dev", name)
}

// hears reports whether the host gets an answer to a ping; it waits longer if one is expected.
func (h host) hears(address string, expected bool) bool {
	patience := "-W1"
	if expected {
		patience = "-W30"
	}
	args := h.inside("ping", "-c1", patience, "-n", "-q", address)
	return exec.Command(args[0], args[1:]...).Run() == nil
}

func TestAVLANReachesItsMembersAndNobodyElse(t *testing.T) {
	testkit.NeedsMachine(t)
	a, b := newHost(t, "a"), newHost(t, "b")
	a.run("ip", "-n", a.name, "link", "add", "trunk", "type", "veth", "peer", "name", "trunk", "netns", b.name)
	for i, h := range []host{a, b} {
		h.run("ip", "-n", h.name, "link", "set", "trunk", "up")
		h.run("ip", "-n", h.name, "address", "add", fmt.Sprintf("10.0.0.%d/24", i+1), "dev", "trunk")
	}
	a.vlan(7, "10.0.7.1/24")
	b.vlan(7, "10.0.7.2/24")
	a.vlan(4094, "10.0.8.1/24")
	b.vlan(4094, "10.0.8.2/24")
	a.vlan(9, "10.0.9.1/24")
	b.vlan(10, "10.0.9.2/24")
	for address, want := range map[string]bool{"10.0.0.2": true, "10.0.7.2": true, "10.0.8.2": true, "10.0.9.2": false} {
		if got := a.hears(address, want); got != want {
			t.Errorf("%s answers: %v", address, got)
		}
	}
}
