package daemon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/utils/fault"
)

func TestLargeBodiesAreBoundedTogetherAndSmallOnesAreNot(t *testing.T) {
	bound := newBodies()
	send := func(size int, then http.HandlerFunc) {
		r := httptest.NewRequest("POST", api.ApplyPath, strings.NewReader(strings.Repeat("x", size)))
		bound.limit(then).ServeHTTP(httptest.NewRecorder(), r)
	}
	read := func(want error) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			if _, err := api.ReadBody(r); (err == nil) != (want == nil) || err != nil && !fault.Is(err, fault.KindOf(want)) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	full := fault.New(fault.Unavailable, "full")
	var nested func(depth int)
	nested = func(depth int) {
		send(api.MaxApply, func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			if depth > 1 {
				nested(depth - 1)
				return
			}
			send(api.MaxApply, read(full))
			send(smallBody, read(nil))
		})
	}
	nested(bodiesTotal / api.MaxApply) // as many requests in flight as have room
	send(api.MaxApply, read(nil))      // what was answered counts no more
}
