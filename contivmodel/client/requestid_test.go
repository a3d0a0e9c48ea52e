package client

import (
	"net/http"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

func TestARefusalNamesItsRequest(t *testing.T) {
	sent := map[string]int{}
	c := connectTo(t, Config{URLs: []string{serve(t, answer(http.StatusServiceUnavailable, "text/plain", "no leader")), serve(t, func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(contivmodel.RequestIDHeader)
		sent[id]++
		w.Header().Set(contivmodel.RequestIDHeader, "answered-"+id)
		http.Error(w, "Invalid Key", http.StatusInternalServerError)
	})}})
	for range 2 {
		_, err := List[contivmodel.Network](t.Context(), c)
		id, answered := fault.RequestOf(fault.New(fault.Internal, "network blue:web: %w", err)), false
		for own := range sent {
			answered = answered || id == "answered-"+own
		}
		if !answered {
			t.Errorf("%v is of request %q, sent were %v", err, id, sent)
		}
	}
	for id, n := range sent {
		if id == "" || n != 1 {
			t.Errorf("%d requests have the id %q", n, id)
		}
	}
}
