package nodeapi

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// localOnly admits root at the socket and clients on this node, except pages of other sites in a browser. Other
// clients use netmaster, which authorizes them.
func (h handlers) localOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.RemoteAddr) && !isRootAtSocket(r.Context()) {
			h.fail(w, fault.New(fault.Denied, "%s %s: only from the node itself, at 127.0.0.1 or ::1%s; this is %s", r.Method, r.URL.Path, h.socketHint(), r.RemoteAddr))
			return
		}
		if err := h.origins.Check(r); err != nil {
			h.fail(w, fault.New(fault.Denied, "%s %s from origin %q: %w", r.Method, r.URL.Path, r.Header.Get("Origin"), err))
			return
		}
		next(w, r)
	}
}

func isLoopback(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// limited limits the memory of concurrent long answers, even if their
// clients do not read them: each answer occupies one of the places.
func (h handlers) limited(places chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		patience := time.NewTimer(bigAnswerWait)
		defer patience.Stop()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-r.Context().Done():
			return
		case <-patience.C:
			w.Header().Set("Retry-After", "5")
			h.fail(w, fault.New(fault.Unavailable, "%s: %d such answers are being sent, try again", r.URL.Path, cap(places)))
			return
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bigAnswerTimeout)); err != nil {
			h.Log.WithError(err).Debug("no time limit for an answer")
		}
		next(w, r)
	}
}
