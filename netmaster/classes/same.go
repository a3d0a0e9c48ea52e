package classes

import (
	"reflect"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// SameFor tells whether rules say the same as before of some classes, whatever they say of others.
//
// A leader never gives the number of a class to other pods. The next one gives each pod the number that is written for it, and
// what tells the pod from others may have changed while nobody led: the number means something else then, and no policy does.
// What was taken out of networks is not compared: it hardly changes without them, and records of earlier versions do not have it.
func SameFor(some map[uint16]struct{}, before, now []mastercfg.TierRule) bool {
	return len(some) == 0 || reflect.DeepEqual(before, now) || reflect.DeepEqual(only(some, before), only(some, now))
}

// only is what rules say of some classes.
func only(some map[uint16]struct{}, rules []mastercfg.TierRule) (all []mastercfg.TierRule) {
	for _, r := range rules {
		served := len(r.Serving) > 0
		r.Excepts = nil
		r.Subjects, r.Peers, r.Serving = those(some, r.Subjects), those(some, r.Peers), those(some, r.Serving)
		if !isEmptyRule(r) && served == (len(r.Serving) > 0) {
			all = append(all, r)
		}
	}
	return all
}

// those are the numbers of a list that are among some.
func those(some map[uint16]struct{}, list []uint16) (all []uint16) {
	for _, number := range list {
		if _, is := some[number]; is {
			all = append(all, number)
		}
	}
	return all
}

// isEmptyRule tells whether a rule has no subjects or no peers.
func isEmptyRule(r mastercfg.TierRule) bool {
	return len(r.Subjects) == 0 || !r.AnyPeer && !r.AnyPod && len(r.Peers)+len(r.Nets)+len(r.Names) == 0
}
