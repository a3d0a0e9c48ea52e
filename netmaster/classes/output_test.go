package classes

import (
	"net/netip"
	"testing"
)

// The fingerprint is in the store. Another version's must be the same for the same policy: otherwise every
// connection would be evaluated again at an upgrade, and at each change of leader during it.
func TestTheFingerprintOfAPolicyIsTheOneThatIsStored(t *testing.T) {
	policy := func(names ...string) Policy {
		return Policy{
			Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Last, Priority: 7, In: true, Out: true,
			Rules: []Rule{
				{Verdict: Accept, Peers: []PodSelector{{Namespaces: Selector{{"name", Exists, nil}}}}, Ports: []Port{{6, "", 80, 90}, {0, "dns", 0, 0}}},
				{Out: true, Verdict: Deny, Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
				{Out: true, Verdict: Pass, AnyPeer: true, Names: names},
			},
		}
	}
	const stored = "33t8fpc25norh" // by a version that knew no names
	if got := Fingerprint(policy()); got != stored {
		t.Errorf("got %s, want %s", got, stored)
	}
	if one, other := Fingerprint(policy("example.org")), Fingerprint(policy("example.com")); one == stored || one == other {
		t.Errorf("names make no difference: %s, %s", one, other)
	}
}
