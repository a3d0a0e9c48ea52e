package netctl

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The nodes' answers become a table and a line for each node; the exit code has the result.
func TestTracePrintsTablesAndTheEnd(t *testing.T) {
	const first = `{"node":"n1","exit":"tunnel","to":"node n2","next":"n2","steps":[{"table":"CLASSIFY","of":"endpoint web.blue-c1","does":"to GUARD"},{"table":"OUTPUT","does":"leaves by port 1"}]}`
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/trace/" || r.URL.Query().Get("from") != "shop:web" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = w.Write([]byte(`{"protocol":"tcp","port":22,"hops":[` + answer + `]}`))
	}))
	defer server.Close()
	for _, test := range []struct {
		name, hops string
		code       int
		want       string
	}{
		{"dropped behind the tunnel", first + `,{"node":"n2","exit":"dropped","reason":"denied","means":"A rule says so.","table":"POLICY","of":"rule r1","steps":[{"table":"POLICY","of":"rule r1","does":"to DROP"}]}`, exitDropped, `
tcp port 22:
Node  Table     Of                    Does
----  -----     --                    ----
n1    CLASSIFY  endpoint web.blue-c1  to GUARD
      OUTPUT                          leaves by port 1
n2    POLICY    rule r1               to DROP

TO node n2 on n1

DROPPED on n2: denied, in POLICY by rule r1. A rule says so.
`},
		{"delivered", `{"node":"n1","exit":"delivered","to":"endpoint web.blue-c2","steps":[]}`, 0, `
tcp port 22:
Node  Table  Of  Does
----  -----  --  ----

DELIVERED to endpoint web.blue-c2 on n1
`},
		{"by the host", `{"node":"n1","exit":"host","steps":[]}`, 0, `
tcp port 22:
Node  Table  Of  Does
----  -----  --  ----

TO the network stack of the host on n1
`},
		{"by the host to a service", `{"node":"n1","exit":"host","to":"service vip of tenant red","steps":[]}`, 0, `
tcp port 22:
Node  Table  Of  Does
----  -----  --  ----

TO the network stack of the host on n1, which leads to service vip of tenant red
`},
		{"lost sight of", first, exitUndecided, ""},
		{"a group", `{"node":"n1","exit":"unknown","steps":[]}`, exitUndecided, ""},
		{"no answer", `{"node":"n1","exit":"silent","note":"node n1 does not answer"}`, exitUndecided, ""},
		{"no node", ``, exitUndecided, ""},
	} {
		answer = test.hops
		got := run(t, server.URL, "trace shop/web shop/db -p 22")
		if got.code != test.code || test.want != "" && got.stdout != test.want {
			t.Errorf("%s: exit code %d, want %d; %s", test.name, got.code, test.code, cmp.Diff(strings.Split(test.want, "\n"), strings.Split(got.stdout, "\n")))
		}
	}
}
