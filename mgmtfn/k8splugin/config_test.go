package k8splugin

import (
	"testing"
	"time"
)

// Under Kubernetes an ADD that fails has been undone, as far as commands do that, before its program gives up.
func TestAnADDOfAPodEndsWithinItsTimeout(t *testing.T) {
	for mode, most := range map[Mode]time.Duration{Kubernetes: 30 * time.Second, CNI: 120 * time.Second} {
		var l Limits
		if l.setDefaults(mode); l.Add+l.Undo > most || l.Ready >= l.Add {
			t.Errorf("%s: ADD takes up to %s, its undoing %s, the wait for the datapath %s; the program waits %s", mode, l.Add, l.Undo, l.Ready, most)
		}
	}
}
