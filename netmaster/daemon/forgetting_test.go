package daemon

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// The leader removes sessions and join tokens a week after they have expired, however many there are: until then
// requests with them, and the list of tokens, say that they have expired. API tokens have names chosen by users,
// and remain until they are removed.
func TestTheLeaderForgetsWhatHasExpired(t *testing.T) {
	db := storetest.Open(t)
	etcd, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := etcd.Put(t.Context(), key, string(text)); err != nil {
			t.Fatal(err)
		}
		return key
	}
	session := func(id string, ended time.Duration) string {
		return put(mastercfg.SessionKey(fmt.Sprintf("%032s", id)), mastercfg.Session{ID: id, User: "ann", Expires: time.Now().Add(-ended)})
	}
	token := func(id string, ended time.Duration) string {
		return put(mastercfg.JoinTokenPrefix+id, mastercfg.JoinToken{ID: id, Role: "node", Uses: 1, Used: 1, Expires: time.Now().Add(-ended)})
	}
	const long, lately = 7*24*time.Hour + time.Hour, 7*24*time.Hour - time.Hour
	stay := []string{session("good", -time.Hour), session("lately", lately), token("good", -time.Hour), token("lately", lately),
		put(mastercfg.JoinTokenPrefix+"endless", mastercfg.JoinToken{ID: "endless", Role: "node"}),
		put(mastercfg.APITokenKey(fmt.Sprintf("%032s", "named")), mastercfg.APIToken{Name: "named", Expires: time.Now().Add(-long)}), mastercfg.JoinTokenPrefix + "damaged"}
	if _, err := etcd.Put(t.Context(), mastercfg.JoinTokenPrefix+"damaged", "{"); err != nil {
		t.Fatal(err)
	}
	gone := []string{token("long", long)}
	for i := range 300 {
		gone = append(gone, session(fmt.Sprint(i), long))
	}
	_, _ = founding(t)
	testkit.Eventually(t, 20*time.Second, "what has expired is gone", func() bool {
		there := storetest.Dump(t, db)
		for _, key := range gone {
			if _, is := there[key]; is {
				return false
			}
		}
		return true
	})
	there := storetest.Dump(t, db)
	for _, key := range stay {
		if _, is := there[key]; !is {
			t.Errorf("%s is gone", key)
		}
	}
}
