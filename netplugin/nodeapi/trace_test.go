package nodeapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/netplugin/tracing"
	"github.com/contiv/netplugin/test/testkit"
)

// Any client may ask for traces: those that wait for the switch do not block requests that the agent answers
// itself.
func TestTracesHaveTheirOwnPlaces(t *testing.T) {
	asked := make(chan struct{}, bigAnswers)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	slow := func(r context.Context, _ tracing.Query) (hops.Hop, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return hops.Hop{}, r.Err()
	}
	n := &node{}
	server := httptest.NewServer(routesOf(Config{Agent: n, Attachments: n, Names: exampleNames{}, Metrics: prometheus.NewRegistry(), Trace: slow, Log: testkit.Quiet()}))
	defer server.Close()
	ended := make(chan struct{}, bigAnswers)
	for range bigAnswers {
		go func() {
			defer func() { ended <- struct{}{} }()
			if answer, err := http.Get(server.URL + "/inspect/trace?from=a&to=b&protocol=tcp&port=80"); err == nil {
				_ = answer.Body.Close()
			}
		}()
	}
	defer func() {
		cancel()
		for range bigAnswers {
			<-ended
		}
	}()
	for range bigAnswers {
		select {
		case <-asked:
		case <-ctx.Done():
			t.Fatal("nobody has been asked")
		}
	}
	for _, path := range []string{"/inspect/driver", "/inspect/counters"} {
		if status, _, body := call(t, http.MethodGet, server.URL+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
