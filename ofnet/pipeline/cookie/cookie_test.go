package cookie_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// The layout is on the wire of running switches, so one cookie is written out.
func TestLayoutIsOwnerRoundClassObject(t *testing.T) {
	c := cookie.WithRound(cookie.New(cookie.Endpoint, ""), 0x1234)
	const offset32 = 0x811c9dc5 // FNV-1a of nothing
	if want := uint64(0xC0_1234_03_00000000 | offset32); c != want {
		t.Errorf("cookie = %#x, want %#x", c, want)
	}
}

func TestPartsComeBackAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		class := cookie.Class(rapid.Uint8().Draw(t, "class"))
		object := rapid.String().Draw(t, "object")
		round := rapid.Uint16().Draw(t, "round")
		plain := cookie.New(class, object)
		c := cookie.WithRound(cookie.WithRound(plain, ^round), round)

		if !cookie.Ours(c) || cookie.ClassOf(c) != class || cookie.RoundOf(c) != round {
			t.Fatalf("%#x: ours %v, class %d, round %d", c, cookie.Ours(c), cookie.ClassOf(c), cookie.RoundOf(c))
		}
		if cookie.ObjectOf(c) != cookie.ObjectOf(plain) || cookie.WithoutRound(c) != plain {
			t.Fatalf("%#x: stamping a round changed more than the round", c)
		}
	})
}

func TestSelectorsMatchWhatTheySay(t *testing.T) {
	old := cookie.WithRound(cookie.New(cookie.Endpoint, "web.blue-1"), 1)
	fresh := cookie.WithRound(cookie.New(cookie.Endpoint, "web.blue-1"), 2)
	rule := cookie.WithRound(cookie.New(cookie.Policy, "web.blue-1"), 2)
	foreign := uint64(0x17)

	matches := func(value, mask, c uint64) bool { return c&mask == value&mask }
	for _, s := range []struct {
		name        string
		value, mask uint64
		want        map[uint64]bool
	}{
		{"all ours", first(cookie.AllOurs()), second(cookie.AllOurs()), map[uint64]bool{old: true, fresh: true, rule: true, foreign: false}},
		{"all of round 1", first(cookie.AllOfRound(1)), second(cookie.AllOfRound(1)), map[uint64]bool{old: true, fresh: false, rule: false, foreign: false}},
		{"all of the endpoint", first(cookie.AllOfObject(old)), second(cookie.AllOfObject(old)), map[uint64]bool{old: true, fresh: true, rule: false, foreign: false}},
	} {
		for c, want := range s.want {
			if got := matches(s.value, s.mask, c); got != want {
				t.Errorf("%s selects %#x: %v, want %v", s.name, c, got, want)
			}
		}
	}
}

func TestClassesHaveNames(t *testing.T) {
	for class, want := range map[cookie.Class]string{0: "unknown", cookie.Base: "base", cookie.BGP: "bgp", 200: "unknown"} {
		if class.String() != want {
			t.Errorf("class %d is called %q, want %q", class, class, want)
		}
	}
}

func first(a, _ uint64) uint64  { return a }
func second(_, b uint64) uint64 { return b }
