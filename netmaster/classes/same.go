package classes

import (
	"reflect"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// SameFor reports whether two sets of rules are equal for some classes, whatever they are for others.
//
// A leader never reuses the number of a class for other pods. The next leader gives each pod its recorded number,
// and what distinguishes the pod may have changed while there was no leader: then the number has another meaning,
// although no policy has changed. Exceptions of networks are not compared: they rarely change alone, and earlier
// records do not have them.
func SameFor(some map[uint16]struct{}, before, now []mastercfg.TierRule) bool {
	return len(some) == 0 || reflect.DeepEqual(before, now) || reflect.DeepEqual(only(some, before), only(some, now))
}

// only returns the parts of rules about some classes.
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

// those returns the numbers of a list that are in some.
func those(some map[uint16]struct{}, list []uint16) (all []uint16) {
	for _, number := range list {
		if _, is := some[number]; is {
			all = append(all, number)
		}
	}
	return all
}

// isEmptyRule reports whether a rule has no subjects or no peers.
func isEmptyRule(r mastercfg.TierRule) bool {
	return len(r.Subjects) == 0 || !r.AnyPeer && !r.AnyPod && len(r.Peers)+len(r.Nets)+len(r.Names) == 0
}
