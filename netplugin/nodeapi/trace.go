package nodeapi

import (
	"net/http"
	"net/netip"
	"strconv"

	"github.com/contiv/netplugin/netplugin/tracing"
	"github.com/contiv/netplugin/utils/fault"
)

// inspectTrace answers ?from=ENDPOINT&to=ENDPOINT-OR-ADDRESS&protocol=tcp&port=80 with the path of such a
// packet through the switch; &source=ADDRESS sets its source address.
func (h handlers) inspectTrace(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	query := tracing.Query{From: q.Get("from"), To: q.Get("to"), Protocol: q.Get("protocol")}
	port, err := strconv.ParseUint(q.Get("port"), 10, 16)
	if err != nil {
		h.fail(w, fault.New(fault.Invalid, "port %q: want 0 to 65535", q.Get("port")))
		return
	}
	query.Port = uint16(port)
	if text := q.Get("source"); text != "" {
		if query.Source, err = netip.ParseAddr(text); err != nil {
			h.fail(w, fault.New(fault.Invalid, "source %q: want an address", text))
			return
		}
	}
	if h.Trace == nil {
		h.fail(w, fault.New(fault.Unavailable, "%s: there is no switch to ask", r.URL.Path))
		return
	}
	hop, err := h.Trace(r.Context(), query)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.json(w, hop)
}
