package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The checks in this file use nothing of the store except the fate of lost calls. They check whether the responses
// to clients can be put into one order that agrees with time: for every object there is a register of its
// existence, for every address of a network a register of its owner.

// checkTime limits the search for an order of one check.
const checkTime = 20 * time.Second

// afterAll is the end of a lost call: it may take effect at any time or, equivalent to never, after everything
// else.
const afterAll = math.MaxInt64

// step is the effect of a call on a register: whether the call is possible in a state, and the next state.
// Registers begin empty.
type step func(state string) (ok bool, next string)

// becomes returns a step from one of some states; without from, from any.
func becomes(next string, from ...string) step {
	return func(state string) (bool, string) { return len(from) == 0 || slices.Contains(from, state), next }
}

// entry is a call in a register.
type entry struct {
	*Call
	step step
}

// linearizable searches for an order of every register.
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

// listing shows the calls of a register; it is truncated when it becomes unreadable.
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
