package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/utils/fault"
)

func TestLargeBodiesAreBoundedTogetherAndSmallOnesAreNot(t *testing.T) {
	bound := newBodies()
	source := "192.0.2.1"
	send := func(size int, then http.HandlerFunc) {
		r := httptest.NewRequest("POST", rest.ApplyPath, strings.NewReader(strings.Repeat("x", size)))
		conn := &from{ip: source}
		bound.limit(then).ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), connKey{}, net.Conn(conn))))
	}
	read := func(want error) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			if _, err := rest.ReadBody(r); (err == nil) != (want == nil) || err != nil && !fault.Is(err, fault.KindOf(want)) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	full := fault.New(fault.Unavailable, "full")
	// nested has as many requests in flight as a machine has room for.
	var nested func(depth int, then func())
	nested = func(depth int, then func()) {
		send(rest.MaxApply, func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			if depth > 1 {
				nested(depth-1, then)
				return
			}
			send(rest.MaxApply, read(full))
			send(smallBody, read(nil))
			then()
		})
	}
	nested(bodiesOfOne/rest.MaxApply, func() {
		source = "192.0.2.2" // which has the other half
		nested(bodiesOfOne/rest.MaxApply, func() {
			source = "192.0.2.3"
			send(rest.MaxApply, read(full))
		})
	})
	source = "2001:db8::1"
	nested(bodiesOfOne/rest.MaxApply, func() {
		source = "2001:db8::2" // there is room, but not for more of this network
		send(rest.MaxApply, read(full))
		source = "2001:db8:0:1::2"
		send(rest.MaxApply, read(nil))
	})
	if len(bound.of) != 0 || bound.held != 0 {
		t.Errorf("%d bytes are held, by %v", bound.held, bound.of)
	}
	source = "192.0.2.1"
	send(rest.MaxApply, read(nil)) // answered requests no longer count
}
