package cookie_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// Running switches have cookies of this layout, so one is written out.
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

// Counters are summed by cookie, so two objects must not have the same one. With 32 bits of hash, this many ids of
// the usual form had several collisions.
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
