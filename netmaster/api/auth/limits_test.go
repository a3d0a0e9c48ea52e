package auth

import (
	"context"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
)

// A certificate for a key that was revoked is valid for days. Whoever has it uses up nothing of what the node has
// that joined again with another key.
func TestAFormerKeyUsesUpNothingOfItsNode(t *testing.T) {
	now := time.Now()
	e := New(Config{Now: func() time.Time { return now }})
	may := func(key string) (request, apply bool) {
		t.Helper()
		q := &Caller{Who: identity.Identity{Kind: identity.Node, Name: "h1", KeyHash: key}, mode: mastercfg.SecurityEnforced}
		name, bounded := q.client()
		if !bounded {
			t.Errorf("with the %s key the node has no limit", key)
		}
		wait, _ := e.limiter.Request(name, now)
		_, err := e.Take(context.WithValue(t.Context(), callerKey{}, q), ratelimit.Apply)
		return wait == 0, err == nil
	}
	for range clientBurst*ClientRate + 1 {
		may("former")
	}
	if request, apply := may("former"); request || apply {
		t.Errorf("the former key has no limit: request %t, apply %t", request, apply)
	}
	if request, apply := may("present"); !request || !apply {
		t.Errorf("the present key: request %t, apply %t", request, apply)
	}
}
