package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

const gold = `{"tenantName":"blue","profileName":"gold","DSCP":%d,"bandwidth":"10 Mbps"}`

// tagged sends a request that must succeed and returns the entity tag of the answer.
func (b *bench) tagged(method, path, body string, headers ...string) string {
	b.Helper()
	code, answer, header := b.do(method, path, body, headers...)
	if code != http.StatusOK {
		b.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return header.Get("ETag")
}

func TestObjectsCarryTheRevisionOfTheirLastChange(t *testing.T) {
	b := ready(t)
	created := b.tagged("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 1))
	kv, err := b.db.Get(t.Context(), mastercfg.ModelKey("netprofile", "blue:gold"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%q", fmt.Sprint(kv.ModRevision)); created != want {
		t.Errorf("created %s, stored %s", created, want)
	}
	if got := b.tagged("GET", "netprofiles/blue:gold", ""); got != created {
		t.Errorf("read %s, created %s", got, created)
	}
	b.ok("POST", "networks/blue:web", web) // the store goes on, the object does not
	if got := b.tagged("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 1)); got != created {
		t.Errorf("an update that changes nothing gives %s, not %s", got, created)
	}
	if got := b.tagged("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 2)); got == created || got != b.tagged("GET", "netprofiles/blue:gold", "") {
		t.Errorf("an update gives %s", got)
	}
	_, _, header := b.do("GET", "netprofiles", "")
	if header.Get(mastercfg.RevisionHeader) == "" || header.Get("ETag") != "" {
		t.Errorf("headers of a listing: %v", header)
	}
}

func TestTheSlowerOfTwoEditorsIsTold(t *testing.T) {
	b := ready(t)
	first := b.tagged("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 1))
	second := b.tagged("PUT", "netprofiles/blue:gold", fmt.Sprintf(gold, 2), "If-Match", first)
	for _, c := range []struct {
		method, body string
		headers      []string
		status       int
	}{
		{"POST", fmt.Sprintf(gold, 3), []string{"If-Match", first}, 412},
		{"DELETE", "", []string{"If-Match", first}, 412},
		{"POST", fmt.Sprintf(gold, 3), []string{"If-None-Match", "*"}, 412},
		{"POST", fmt.Sprintf(gold, 3), []string{"If-Match", first + ", " + second}, 200},
		{"DELETE", "", []string{"If-Match", "*"}, 200},
		{"DELETE", "", []string{"If-Match", second}, 404},
		{"POST", fmt.Sprintf(gold, 3), []string{"If-Match", second}, 412}, // not made anew
		{"POST", fmt.Sprintf(gold, 3), []string{"If-Match", "*"}, 412},
		{"POST", fmt.Sprintf(gold, 3), []string{"If-None-Match", "*"}, 200},
	} {
		code, answer, _ := b.do(c.method, "netprofiles/blue:gold", c.body, append(c.headers, "Accept", fault.ProblemType)...)
		if code != c.status || code == 412 && !strings.Contains(answer, `"reason":"conflict"`) {
			t.Errorf("%s %v: %d %s, want %d", c.method, c.headers, code, answer, c.status)
		}
	}
	// A condition without a revision does not permit a write, and weak tags only count where they must not match.
	current := b.tagged("GET", "netprofiles/blue:gold", "")
	for _, headers := range [][]string{
		{"If-Match", `""`}, {"If-Match", ""}, {"If-Match", ","}, {"If-Match", "W/" + current}, {"If-Match", `"x"`},
		{"If-None-Match", current}, {"If-None-Match", first + `, W/` + current},
	} {
		for _, method := range []string{"POST", "DELETE"} {
			code, answer, _ := b.do(method, "netprofiles/blue:gold", fmt.Sprintf(gold, 4), append(headers, "Accept", fault.ProblemType)...)
			if code != 412 {
				t.Errorf("%s %q: %d %s", method, headers, code, answer)
			}
		}
	}
	if code, answer, _ := b.do("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 3), "If-None-Match", first+", "+second); code != 200 {
		t.Errorf("%d %s", code, answer)
	}
	// Clients that do not ask for proper codes get the text.
	code, answer, _ := b.do("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 4), "If-Match", first)
	if want := "netprofile blue:gold has changed since revision " + strings.Trim(first, `"`); code != 500 || answer != want {
		t.Errorf("%d %s, want %s", code, answer, want)
	}
}

// Concurrent requests are committed together: the revision of an earlier one's write is not known yet, and must
// not pass for the old one.
func TestOfEditorsAtTheSameMomentOneWins(t *testing.T) {
	b := ready(t)
	tag := b.tagged("POST", "netprofiles/blue:gold", fmt.Sprintf(gold, 1))
	for round := range 20 {
		var won atomic.Int64
		var editors sync.WaitGroup
		var next atomic.Value
		for i := range clients {
			editors.Go(func() {
				code, answer, header := b.do("POST", "netprofiles/blue:gold", fmt.Sprintf(`{"tenantName":"blue","profileName":"gold","bandwidth":"%d Mbps"}`, 100*(round+1)+i),
					"If-Match", tag, "Accept", fault.ProblemType)
				switch code {
				case http.StatusOK:
					won.Add(1)
					next.Store(header.Get("ETag"))
				case http.StatusPreconditionFailed:
				default:
					t.Errorf("%d %s", code, answer)
				}
			})
		}
		editors.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d of %d editors won", round, won.Load(), clients)
		}
		tag = next.Load().(string)
	}
}

func TestListingsAreNarrowedToATenant(t *testing.T) {
	b := ready(t)
	b.ok("POST", "tenants/blue2", `{"tenantName":"blue2"}`)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "networks/blue2:web", strings.Replace(web, `"blue"`, `"blue2"`, 1))
	for query, want := range map[string]string{
		"networks/?tenant=blue":  "blue:web",
		"networks/?tenant=blue2": "blue2:web",
		"networks?tenant=none":   "",
		"networks/":              "blue2:web blue:web",
		"tenants/?tenant=blue":   "blue",
		"tenants/?tenant=none":   "",
		"globals/?tenant=blue":   "global", // belongs to no tenant
		"volumes/?tenant=blue":   "",
	} {
		var all []struct{ Key string }
		if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/"+query, "")), &all); err != nil {
			t.Fatal(err)
		}
		keys := []string{}
		for _, o := range all {
			keys = append(keys, o.Key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
