package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The checks in this file know nothing of the store but what became of lost
// calls. They ask whether what clients were told can be put into one order that
// agrees with time: for every object a register that says whether it exists,
// for every address of a network one that says who has it.

// checkTime bounds the search for an order of one check.
const checkTime = 20 * time.Second

// afterAll is when a lost call ends: it may take effect at any time, or, which
// is the same as never, after everything else.
const afterAll = math.MaxInt64

// step is what a call means for a register: whether it can have met a state,
// and the state it leaves. Registers begin empty.
type step func(state string) (ok bool, next string)

// becomes is a step from one of some states; none given means from any.
func becomes(next string, from ...string) step {
	return func(state string) (bool, string) { return len(from) == 0 || slices.Contains(from, state), next }
}

// entry is a call in a register.
type entry struct {
	*Call
	step step
}

// linearizable looks for an order in every register.
func linearizable(registers map[string][]porcupine.Operation) []string {
	model := porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := input.(entry).step(state.(string))
			return ok, next
		},
	}
	var found []string
	for name, operations := range registers {
		switch porcupine.CheckOperationsTimeout(model, operations, checkTime) {
		case porcupine.Illegal:
			found = append(found, fmt.Sprintf("%s: the answers fit no order of the calls:%s", name, listing(operations)))
		case porcupine.Unknown:
			found = append(found, fmt.Sprintf("%s: no order of %d calls found within %s", name, len(operations), checkTime))
		}
	}
	slices.Sort(found)
	return found
}

// listing shows the calls of a register; it is cut where it becomes unreadable.
func listing(operations []porcupine.Operation) string {
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	for i, o := range operations {
		if i == 60 {
			fmt.Fprintf(&text, "\n\tand %d more", len(operations)-i)
			break
		}
		fmt.Fprintf(&text, "\n\t%s", o.Input.(entry).Call)
	}
	return text.String()
}

func (c *Call) operation(s step) porcupine.Operation {
	o := porcupine.Operation{ClientId: c.Client, Input: entry{c, s}, Call: int64(c.Start), Return: int64(c.End)}
	if c.Outcome == Unknown {
		o.Return = afterAll
	}
	return o
}
