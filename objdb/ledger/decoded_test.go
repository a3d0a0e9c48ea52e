package ledger

import (
	"fmt"
	"sync"
	"testing"
)

func TestWhatIsDecodedIsThatOfTheBytes(t *testing.T) {
	m := &ofViews{all: ofPlan{}}
	m.keep("k", []byte("1"), 1)
	if v, ok := m.known("k", []byte("1")); !ok || v != 1 {
		t.Errorf("%v, %t", v, ok)
	}
	for _, other := range []struct{ key, from string }{{"k", "2"}, {"k", ""}, {"l", "1"}} {
		if v, ok := m.known(other.key, []byte(other.from)); ok {
			t.Errorf("%q with %q: %v", other.key, other.from, v)
		}
	}
	var working sync.WaitGroup
	for n := range 4 {
		working.Go(func() {
			for i := range 2 * mostDecoded {
				key := fmt.Sprint(n*mostDecoded + i)
				m.keep(key, []byte(key), key)
				if v, ok := m.known(key, []byte(key)); ok && v != key {
					t.Errorf("%s: %v", key, v)
				}
			}
		})
	}
	working.Wait()
	if len(m.all) > mostDecoded {
		t.Errorf("%d are kept", len(m.all))
	}
}
