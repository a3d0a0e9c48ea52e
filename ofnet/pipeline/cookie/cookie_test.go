package cookie_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// The layout is on the wire of running switches, so one cookie is written out.
func TestLayoutIsOwnerClassObject(t *testing.T) {
	const offset64 = 0xcbf29ce484222325 // FNV-1a of nothing
	const folded = 0x9ce484222325 ^ 0xcbf2
	if got, want := cookie.New(cookie.Endpoint, ""), uint64(0xC0_03<<48|folded); got != want {
		t.Errorf("cookie = %#x, want %#x, folded from %#x", got, want, uint64(offset64))
	}
}

func TestPartsComeBackAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		class := cookie.Class(rapid.Uint8().Draw(t, "class"))
		c := cookie.New(class, rapid.String().Draw(t, "object"))
		if !cookie.Ours(c) || cookie.ClassOf(c) != class {
			t.Fatalf("%#x: ours %v, class %d", c, cookie.Ours(c), cookie.ClassOf(c))
		}
	})
}

func TestSelectorsMatchWhatTheySay(t *testing.T) {
	endpoint := cookie.New(cookie.Endpoint, "web.blue-1")
	rule := cookie.New(cookie.Policy, "web.blue-1")
	older := uint64(0xC0_0102_03_12345678) // of a version that had rounds
	foreign := uint64(0x17)

	matches := func(value, mask, c uint64) bool { return c&mask == value&mask }
	ours, oursMask := cookie.AllOurs()
	endpoints, endpointsMask := cookie.AllOfClass(cookie.Endpoint)
	for _, s := range []struct {
		name        string
		value, mask uint64
		want        map[uint64]bool
	}{
		{"all ours", ours, oursMask, map[uint64]bool{endpoint: true, rule: true, older: true, foreign: false}},
		{"all endpoints", endpoints, endpointsMask, map[uint64]bool{endpoint: true, rule: false, older: false, foreign: false}},
	} {
		for c, want := range s.want {
			if got := matches(s.value, s.mask, c); got != want {
				t.Errorf("%s selects %#x: %v, want %v", s.name, c, got, want)
			}
		}
	}
}

// Counters are added up by cookie, so two objects must not have the same one.
// With 32 bits of hash, this many ids of the usual form met several times.
func TestAQuarterOfAMillionEndpointsHaveDifferentCookies(t *testing.T) {
	seen := make(map[uint64]string, 1<<18)
	for n := range 64 {
		for c := range 4096 {
			id := fmt.Sprintf("net%d.tenant%d-%012x", n, n%16, c)
			cookie := cookie.New(cookie.Endpoint, id)
			if other, ok := seen[cookie]; ok {
				t.Fatalf("%s and %s share %#x", id, other, cookie)
			}
			seen[cookie] = id
		}
	}
}
