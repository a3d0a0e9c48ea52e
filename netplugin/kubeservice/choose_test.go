package kubeservice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// backends makes them of words such as "1:n1 ready,serving" or "2:n2 serving,terminating zone=a node=n1".
func backends(texts ...string) (all []Backend) {
	for _, text := range texts {
		words := strings.Fields(text)
		number, node, _ := strings.Cut(words[0], ":")
		b := Backend{Address: netip.MustParseAddrPort("10.0.0." + number + ":80"), Node: node}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "zone":
				b.ForZones = append(b.ForZones, value)
			case "node":
				b.ForNodes = append(b.ForNodes, value)
			default:
				b.Ready, b.Serving, b.Terminating = strings.Contains(word, "ready"), strings.Contains(word, "serving"), strings.Contains(word, "terminating")
			}
		}
		all = append(all, b)
	}
	return all
}

func said(c Chosen) string {
	var words []string
	for _, a := range c.Serving {
		words = append(words, fmt.Sprint(a.Addr().As4()[3]))
	}
	for _, a := range c.Draining {
		words = append(words, fmt.Sprintf("(%d)", a.Addr().As4()[3]))
	}
	if c.Silent {
		words = append(words, "silent")
	}
	return strings.Join(words, " ")
}

func TestBackendsAreChosenAsKubernetesWantsIt(t *testing.T) {
	const ready, ends, gone = " ready,serving", " serving,terminating", " terminating"
	for _, c := range []struct {
		name           string
		all            []Backend
		udp            bool
		cluster, local string
	}{
		{name: "nobody"},
		{"ready ones, here and elsewhere", backends("1:n1"+ready, "2:n2"+ready), false, "1 2", "1 (2)"},
		{"nobody here", backends("2:n2" + ready), false, "2", "(2) silent"},
		{"one that ends gets nothing new", backends("1:n1"+ends, "2:n2"+ready), false, "2 (1)", "1 (2)"},
		{"all end", backends("1:n1"+ends, "2:n2"+ends), false, "1 2", "1 (2)"},
		{"all end, the one here does not serve", backends("1:n1"+gone, "2:n2"+ends), false, "2 (1)", "(1) (2) silent"},
		{"none serves", backends("1:n1"+gone, "2:n2"), false, "(1) (2)", "(1) (2)"},
		{"what is left of UDP goes to those that serve only", backends("1:n1"+gone, "2:n2"+ends, "3:n2"+ready), true, "3 (2)", "(2) (3) silent"},
		{"hints for nodes", backends("1:n1"+ready+" node=n1 zone=a", "2:n2"+ready+" node=n2 zone=a"), false, "1 (2)", "1 (2)"},
		{"hints for zones", backends("1:n1"+ready+" zone=b", "2:n2"+ready+" zone=a", "3:n3"+ready+" zone=a"), false, "2 3 (1)", "1 (2) (3)"},
		{"no hint for this node, one for its zone", backends("2:n2"+ready+" node=n2 zone=a", "3:n3"+ready+" node=n3 zone=b"), false, "2 (3)", "(2) (3) silent"},
		{"one without a hint", backends("1:n2"+ready+" zone=b", "2:n2"+ready+" zone=a", "3:n3"+ready), false, "1 2 3", "(1) (2) (3) silent"},
		{"nobody is meant for this zone", backends("1:n2" + ready + " zone=b"), false, "1", "(1) silent"},
		{"hints of those that are not ready are not looked at", backends("1:n2"+ready+" zone=a", "2:n2"+ends), false, "1 (2)", "(1) (2) silent"},
		{"hints do not count among those that end", backends("1:n2"+ends+" zone=b", "2:n2"+ends+" zone=a"), false, "1 2", "(1) (2) silent"},
		{"made by hand, on no node", backends("1:" + ready), false, "1", "(1) silent"},
	} {
		sets := Choose(c.all, Place{Node: "n1", Zone: "a"}, c.udp)
		if cluster, local := said(sets.Cluster), said(sets.Local); cluster != c.cluster || local != c.local {
			t.Errorf("%s: cluster %q, local %q, want %q, %q", c.name, cluster, local, c.cluster, c.local)
		}
		slices.Reverse(c.all)
		if again := Choose(c.all, Place{Node: "n1", Zone: "a"}, c.udp); said(again.Cluster) != said(sets.Cluster) || said(again.Local) != said(sets.Local) {
			t.Errorf("%s: another order gives another choice", c.name)
		}
	}
	hinted := backends("1:n1"+ready+" zone=b", "2:n2"+ready+" zone=a")
	if got := said(Choose(hinted, Place{Node: "n1"}, false).Cluster); got != "1 2" {
		t.Errorf("a node without a zone gets %q, want all", got)
	}
}

// Beyond what a switch balances over, each node has some of its own, and keeps them when others come.
func TestOfTooManyBackendsANodeHasSome(t *testing.T) {
	var all Chosen
	for i := range 100 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
		if all.Serving = append(all.Serving, at); i < 5 {
			all.Draining = append(all.Draining, netip.AddrPortFrom(at.Addr(), 81))
		}
	}
	nobody := func(netip.AddrPort) bool { return false }
	used := map[netip.AddrPort]bool{}
	for _, node := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"} {
		some := all.AtMost(50, node, nobody)
		if len(some.Serving) != 50 || len(some.Draining) != 0 || !slices.IsSortedFunc(some.Serving, netip.AddrPort.Compare) {
			t.Errorf("%s has %v", node, some)
		}
		for _, a := range some.Serving {
			used[a] = true
		}
		fewer := Chosen{Serving: slices.Clone(all.Serving)}
		fewer.Serving = slices.Delete(fewer.Serving, 0, 1)
		lost := slices.DeleteFunc(slices.Clone(some.Serving), func(a netip.AddrPort) bool { return slices.Contains(fewer.AtMost(50, node, nobody).Serving, a) })
		if len(lost) > 1 || len(lost) == 1 && lost[0] != all.Serving[0] {
			t.Errorf("%s lost %v, as %s went", node, lost, all.Serving[0])
		}
	}
	if len(used) < 90 {
		t.Errorf("all nodes together use %d of 100", len(used))
	}
	if some := all.AtMost(102, "n1", nobody); len(some.Serving) != 100 || len(some.Draining) != 2 {
		t.Errorf("%d serve, %d drain", len(some.Serving), len(some.Draining))
	}
}

// A client that enters at another node may have a backend on this node, which returns its answers if it knows the
// backend.
func TestANodeHasItsOwnBackendsBeforeOthers(t *testing.T) {
	all := func(from, to int) (some []netip.AddrPort) {
		for i := from; i < to; i++ {
			some = append(some, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(i % 250)}), 80))
		}
		return some
	}
	for name, c := range map[string]struct {
		serving, draining, n   int // of each the last ones are here
		here, hereDraining     int
		wantServing, wantDrain int
	}{
		"all fit":                      {serving: 30, draining: 5, n: 50, here: 10, hereDraining: 5, wantServing: 30, wantDrain: 5},
		"those that serve":             {serving: 100, n: 50, here: 40, wantServing: 50},
		"those that drain":             {serving: 100, draining: 20, n: 50, here: 30, hereDraining: 15, wantServing: 35, wantDrain: 15},
		"more than fit serve":          {serving: 100, draining: 20, n: 50, here: 60, hereDraining: 15, wantServing: 50},
		"nobody here serves, one fits": {serving: 100, draining: 20, n: 1, hereDraining: 15, wantServing: 1},
	} {
		given := Chosen{Serving: all(0, c.serving), Draining: all(c.serving, c.serving+c.draining)}
		own := slices.Concat(given.Serving[c.serving-c.here:], given.Draining[c.draining-c.hereDraining:])
		here := func(a netip.AddrPort) bool { return slices.Contains(own, a) }
		got := given.AtMost(c.n, "n1", here)
		if len(got.Serving) != c.wantServing || len(got.Draining) != c.wantDrain {
			t.Errorf("%s: %d serve and %d drain, want %d and %d", name, len(got.Serving), len(got.Draining), c.wantServing, c.wantDrain)
		}
		if n := count(got.Serving, here); n != min(c.here, c.n) {
			t.Errorf("%s: %d of %d serve that are here", name, n, c.here)
		}
		if n := count(got.Draining, here); n != min(c.hereDraining, c.wantDrain) {
			t.Errorf("%s: %d of %d drain that are here", name, n, c.hereDraining)
		}
	}
}
