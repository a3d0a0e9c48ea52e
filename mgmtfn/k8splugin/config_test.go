package k8splugin

import (
	"testing"
	"time"
)

// Under Kubernetes a failed ADD has been undone, as far as commands do that, before the timeout of its program,
// which starts first. An earlier ADD may have to be undone, too: that begins within the time of this one, and may
// take as long.
func TestAnADDOfAPodEndsWithinItsTimeout(t *testing.T) {
	const start = time.Second
	for mode, most := range map[Mode]time.Duration{Kubernetes: 30 * time.Second, CNI: 120 * time.Second} {
		var l Limits
		if l.setDefaults(mode); start+l.Add+mostUndos*l.Undo > most || l.Ready >= l.Add {
			t.Errorf("%s: ADD takes up to %s, each of %d undoings %s, the wait for the datapath %s; the program waits %s", mode, l.Add, mostUndos, l.Undo, l.Ready, most)
		}
	}
}
