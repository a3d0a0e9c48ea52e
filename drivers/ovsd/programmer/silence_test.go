package programmer

import (
	"errors"
	"testing"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Only repeated silence, without the object being accepted in between, counts: a switch may be stopped twice while
// one object is written.
func TestSilenceOfAnObjectThatWasTakenIsForgotten(t *testing.T) {
	alone := []step{{owner: pipeline.Key{ID: "a"}}}
	other := []step{{owner: pipeline.Key{ID: "b"}}}
	none := errors.New("no answer")
	once := silence{}.after(alone, none)
	for name, c := range map[string]struct {
		known silence
		want  int
	}{
		"again":                            {once.after(alone, none), 2},
		"again, others were taken":         {once.unless(other).after(alone, none), 2},
		"again, it was taken meanwhile":    {once.unless(alone).after(alone, none), 1},
		"another one":                      {once.after(other, none), 1},
		"several":                          {once.after(append(other, alone...), none), 0},
		"several that others were between": {once.after(append(other, alone...), none).after(alone, none), 1},
	} {
		if c.known.times != c.want {
			t.Errorf("%s: %d times, want %d", name, c.known.times, c.want)
		}
	}
}
