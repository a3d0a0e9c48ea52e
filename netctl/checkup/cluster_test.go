package checkup

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/utils/fault"
)

// A closed cluster is not closed if its store is reachable for others in plain HTTP.
func TestAPlainStoreIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		mode, store, want string
	}{
		"open":                     {"open", "http://10.1.1.1:2379", "WARNING, open"},
		"plain, at loopback":       {"enforced", "http://127.0.0.1:2379", ""},
		"plain, at its loopback":   {"enforced", "http://[::1]:2379 http://localhost:2379", ""},
		"with TLS":                 {"enforced", "https://10.1.1.1:2379", ""},
		"plain":                    {"enforced", "https://127.0.0.1:2379 http://10.1.1.1:2379", "WARNING: whoever reaches the store at http://10.1.1.1:2379"},
		"plain, by a name":         {"permissive", "http://etcd:2379", "WARNING: whoever reaches the store at http://etcd:2379"},
		"plain, of another family": {"permissive", "http://[2001:db8::1]:2379", "WARNING: whoever reaches the store"},
	} {
		if got := secured(c.mode, strings.Fields(c.store)); !strings.Contains(got, c.want) || c.want == "" && got != c.mode {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Where a netmaster has answered that the store does not, or that nobody leads, the hint does not ask whether a netmaster runs.
func TestAStoreWithoutAMajorityIsNotANetmasterThatIsAway(t *testing.T) {
	const away, noMajority = "is netmaster running", "majority"
	for name, c := range map[string]struct {
		answers http.HandlerFunc // nil: nobody listens
		want    string
	}{
		"nobody":             {nil, away},
		"the store is away":  {problem(fault.New(fault.Unavailable, "etcd at https://10.1.1.1:2379: get x: context deadline exceeded")), noMajority},
		"nobody leads":       {problem(fault.New(fault.NotLeader, "Leader not found")), noMajority},
		"not of a netmaster": {http.NotFound, away},
	} {
		server := httptest.NewServer(c.answers)
		if c.answers == nil {
			server.Close()
		}
		master, err := client.New(client.Config{URLs: []string{server.URL}})
		if err != nil {
			t.Fatal(err)
		}
		var results []Result
		Cluster(t.Context(), master, 0, func(r Result) { results = append(results, r) })
		if len(results) != 1 || results[0].Name != "netmaster" || !strings.Contains(results[0].Hint, c.want) {
			t.Errorf("%s: %+v, want %q", name, results, c.want)
		}
		server.Close()
	}
}

func problem(err error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { rest.WriteError(w, r, err) }
}
