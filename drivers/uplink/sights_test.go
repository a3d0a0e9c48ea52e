package uplink

import (
	"errors"
	"testing"
)

func TestALinkThatCannotBeReadForAMomentIsTheOneThatWasSeenBefore(t *testing.T) {
	s, works, unknown := sights{}, working{works: true, changes: 2}, errors.New("no buffer space available")
	for i, step := range []struct {
		index    int
		works    working
		err      error
		before   int
		returned bool
	}{
		{0, working{}, unknown, 0, false},
		{5, works, nil, 0, false},
		{0, working{}, unknown, 5, false},
		{5, works, nil, 5, false},
		{0, working{}, unknown, 5, false},
		{6, works, nil, 5, false}, // another one has its name
		{0, working{}, nil, 6, false},
		{7, works, nil, 0, true},
	} {
		before, _, returned := s.look("up0", step.index, step.works, step.err)
		if before.index != step.before || returned != step.returned {
			t.Errorf("step %d: link %d before, returned %t", i, before.index, returned)
		}
	}
}
