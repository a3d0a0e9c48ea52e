package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

// Earlier requests may still be carried out until a leader has answered one with a later plan.
func TestAClusterIsAtRestWhenALeaderHasAnswered(t *testing.T) {
	refusal := func(reason fault.Kind) string { return `{"reason":"` + reason.String() + `","message":"refused"}` }
	answers := []string{refusal(fault.Unavailable), refusal(fault.NotLeader), "", refusal(fault.NotFound)}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete || r.URL.Path != "/api/v1/tenants/"+nobody+"/" {
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", fault.ProblemType)
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, answers[min(int(asked.Add(1)), len(answers))-1])
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	c := &Cluster{nodes: []*node{{address: address}, {address: address}}}
	if err := c.Rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != int64(len(answers))+1 {
		t.Errorf("asked %d times", n)
	}
}
